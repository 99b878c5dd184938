//! Puts the references and the `allOf` of a schema in place.

use serde_json::{Map, Value, json};

use super::{DEPTH_MAX, NODE_BYTES, Pass};

impl Pass<'_> {
    /// The root, which is an object and no union: the properties of its variants are offered, and none is required.
    pub(super) fn root_map(&mut self) -> Map<String, Value> {
        let mut map = self.flat(self.root, 0);
        for key in ["anyOf", "oneOf"] {
            let Some(variants) = map.shift_remove(key) else { continue };
            self.lost.insert(key);
            for variant in variants.as_array().into_iter().flatten() {
                let mut variant = self.flat(variant, 1);
                variant.retain(|key, _| key == "properties");
                self.merge(&mut map, variant);
            }
        }
        for key in ["const", "enum", "nullable"] {
            map.shift_remove(key);
        }
        map.insert("type".to_owned(), json!("object"));
        map
    }

    /// A schema with its references and its `allOf` put in place, but for those inside its keywords.
    pub(super) fn flat(&mut self, schema: &Value, depth: usize) -> Map<String, Value> {
        let Some(map) = schema.as_object() else { return Map::new() };
        if depth > DEPTH_MAX || !self.spend(NODE_BYTES) {
            self.lost.insert("its size");
            return Map::new();
        }
        let mut map = map.clone();
        if let Some(reference) = map.shift_remove("$ref") {
            let target = self.target(reference.as_str().unwrap_or_default(), depth);
            self.merge(&mut map, target);
        }
        if let Some(Value::Array(parts)) = map.shift_remove("allOf") {
            for part in &parts {
                let part = self.flat(part, depth + 1);
                self.merge(&mut map, part);
            }
        }
        map
    }

    fn target(&mut self, reference: &str, depth: usize) -> Map<String, Value> {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        match target {
            Some(target) if !self.active.iter().any(|active| active == reference) => {
                self.active.push(reference.to_owned());
                self.flat(target, depth + 1)
            }
            // Of a schema within itself the type is told, and no more.
            Some(target) => {
                self.lost.insert("$ref");
                let kind = target.get("type").map(|kind| ("type".to_owned(), kind.clone()));
                Map::from_iter(kind)
            }
            None => {
                self.lost.insert("$ref");
                Map::new()
            }
        }
    }

    /// Adds to a schema what another says beside it. Where they contradict each other the first holds.
    pub(super) fn merge(&mut self, into: &mut Map<String, Value>, from: Map<String, Value>) {
        for (key, more) in from {
            match (into.get_mut(&key), more) {
                (None, more) => {
                    into.insert(key, more);
                }
                (Some(Value::Object(known)), Value::Object(more)) if key == "properties" => {
                    for (name, schema) in more {
                        match known.get_mut(&name) {
                            Some(other) if *other == schema => {}
                            Some(other) => *other = json!({"allOf": [other.take(), schema]}),
                            None => {
                                known.insert(name, schema);
                            }
                        }
                    }
                }
                (Some(Value::Array(known)), Value::Array(more)) if key == "required" => {
                    known.extend(more);
                }
                (Some(known), more) if *known == more || is_annotation(&key) => {}
                (Some(_), _) => {
                    self.lost.insert("allOf");
                }
            }
        }
    }
}

/// Keywords that say something to a reader only.
pub(super) fn is_annotation(key: &str) -> bool {
    matches!(
        key,
        "title"
            | "description"
            | "default"
            | "examples"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$comment"
            | "$id"
            | "$schema"
            | "$anchor"
            | "$defs"
            | "definitions"
            | "format"
    )
}
