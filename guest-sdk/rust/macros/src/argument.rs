//! `#[argument]`: the derives of an argument type, with the paths that spare a tool its own dependencies.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Data, DataEnum, DeriveInput, Error, Fields};

use crate::parameter::option;
use crate::signature::doc_comment;

/// Expands the attribute.
pub(crate) fn argument(options: TokenStream, item: TokenStream) -> TokenStream {
    let (rules, schema) = match check(&options, &item) {
        Ok(found) => found,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#error #item);
        }
    };
    quote! {
        #[derive(
            ::toolcell_guest::serde::Deserialize,
            ::toolcell_guest::serde::Serialize,
            ::toolcell_guest::schemars::JsonSchema,
        )]
        #[serde(crate = "::toolcell_guest::serde")]
        #[schemars(crate = "::toolcell_guest::schemars")]
        #rules
        #item
        #schema
    }
}

/// The serde attributes to add to the type, and the schema that it gets beside it.
fn check(options: &TokenStream, item: &TokenStream) -> syn::Result<(TokenStream, TokenStream)> {
    if !options.is_empty() {
        return Err(Error::new_spanned(options, "#[argument] has no options: use #[serde(…)] and #[schemars(…)]"));
    }
    let text = "#[argument] goes on a struct or an enum";
    let parsed = syn::parse2::<DeriveInput>(item.clone()).map_err(|_| Error::new_spanned(item, text))?;
    match &parsed.data {
        Data::Enum(data) => {
            let rules = if has_rule(&parsed.attrs, "rename_all") {
                TokenStream::new()
            } else {
                quote!(#[serde(rename_all = "snake_case")])
            };
            Ok((rules, plain_schema(&parsed, data)?))
        }
        Data::Struct(data) if is_closed(&data.fields) && !has_rule(&parsed.attrs, "deny_unknown_fields") => {
            Ok((quote!(#[serde(deny_unknown_fields)]), TokenStream::new()))
        }
        Data::Struct(_) => Ok((TokenStream::new(), TokenStream::new())),
        Data::Union(_) => Err(Error::new_spanned(parsed.ident, text)),
    }
}

/// Named fields of which none takes the rest: then an unknown one is a mistake that the model should hear of.
fn is_closed(fields: &Fields) -> bool {
    matches!(fields, Fields::Named(_)) && !fields.iter().any(|field| has_rule(&field.attrs, "flatten"))
}

/// The schema of an enum of names, as text, which spares the tool schemars. Empty where a variant has fields or an
/// attribute changes how the enum looks in JSON.
fn plain_schema(item: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let variants = &data.variants;
    let is_plain = item.generics.params.is_empty()
        && !variants.is_empty()
        && is_untouched(&item.attrs)
        && variants.iter().all(|variant| matches!(variant.fields, Fields::Unit) && is_untouched(&variant.attrs));
    if !is_plain {
        return Ok(TokenStream::new());
    }
    let names: Vec<_> = variants.iter().map(|variant| snake_case(&variant.ident.unraw().to_string())).collect();
    let mut lines = Vec::new();
    for (variant, name) in variants.iter().zip(&names) {
        lines.extend(doc_comment(&variant.attrs)?.map(|doc| format!("{name}: {doc}")));
    }
    let ident = &item.ident;
    let description = option(doc_comment(&item.attrs)?);
    let values = option((!lines.is_empty()).then(|| lines.join("\n")));
    // The names are identifiers, so nothing in them is escaped in JSON.
    let rest = format!(",\"enum\":[\"{}\"]", names.join("\",\""));
    let rest_or_null = format!(",\"enum\":[\"{}\",null]", names.join("\",\""));
    Ok(quote! {
        impl ::toolcell_guest::__private::PlainSchema for #ident {
            const TYPE: ::core::option::Option<&str> = ::core::option::Option::Some("\"string\"");
            const DESCRIPTION: ::core::option::Option<&str> = #description;
            const VALUES: ::core::option::Option<&str> = #values;
            const REST: &str = #rest;
            const REST_OR_NULL: &str = #rest_or_null;
        }
    })
}

/// As serde does it for variants.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.char_indices() {
        if at > 0 && c.is_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn is_untouched(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| !attribute.path().is_ident("serde") && !attribute.path().is_ident("schemars"))
}

fn has_rule(attributes: &[Attribute], word: &str) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("serde")).any(|attribute| {
        let tokens = attribute.meta.to_token_stream().to_string();
        tokens.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: &str) -> String {
        argument(TokenStream::new(), item.parse().unwrap()).to_string()
    }

    #[test]
    fn variants_are_named_as_serde_names_them() {
        for (variant, name) in [("Low", "low"), ("VeryHigh", "very_high"), ("Utf8Text", "utf8_text"), ("ABC", "a_b_c")]
        {
            assert_eq!(snake_case(variant), name);
        }
    }

    #[test]
    fn an_enum_of_names_carries_its_schema_as_text() {
        let tokens = expanded("/// A unit.\nenum Unit { /// Degrees.\nCelsius, Kelvin }");
        assert!(tokens.contains(r#"",\"enum\":[\"celsius\",\"kelvin\"]""#), "{tokens}");
        assert!(tokens.contains(r#"Some ("A unit.")"#) && tokens.contains(r#"Some ("celsius: Degrees.")"#), "{tokens}");
        assert!(tokens.contains(r#"rename_all = "snake_case""#), "{tokens}");
    }

    #[test]
    fn every_other_type_leaves_the_schema_to_schemars() {
        for item in [
            "struct Point { x: f64 }",
            "enum Shape { Circle { radius: f64 } }",
            "#[serde(rename_all = \"UPPERCASE\")] enum Unit { Celsius }",
            "enum Unit { #[serde(rename = \"C\")] Celsius }",
            "enum Unit<T> { Celsius }",
        ] {
            assert!(!expanded(item).contains("PlainSchema"), "{item}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_unless_a_field_takes_them() {
        assert!(expanded("struct Point { x: f64 }").contains("deny_unknown_fields"));
        for item in ["struct Point { x: f64, #[serde(flatten)] rest: Map }", "struct Metres(f64);"] {
            assert!(!expanded(item).contains("deny_unknown_fields"), "{item}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for item in ["fn f() {}", "union U { a: u8 }"] {
            assert!(expanded(item).contains("#[argument] goes on a struct or an enum"), "{item}");
        }
        let tokens = argument(
            quote!(open),
            quote!(
                struct A;
            ),
        )
        .to_string();
        assert!(tokens.contains("#[argument] has no options"), "{tokens}");
    }
}
