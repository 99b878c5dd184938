//! The model that the options name.

use std::sync::Arc;

use toolcell::Model;
use toolcell::model::{Delivery, ModelOptions, ScriptedModel, provider_from_environment};

use crate::args::ModelArgs;

pub(crate) fn model(args: &ModelArgs) -> anyhow::Result<Arc<dyn Model>> {
    if let Some(path) = &args.script {
        return Ok(Arc::new(ScriptedModel::from_file(path)?));
    }
    let options = ModelOptions {
        vendor: args.provider.clone(),
        model: args.model.clone(),
        base_url: args.base_url.clone(),
        output_tokens_max: args.output_tokens_max,
        context_tokens: args.context_tokens,
        delivery: if args.no_stream { Delivery::Whole } else { Delivery::Streamed },
        ..ModelOptions::default()
    };
    Ok(Arc::new(provider_from_environment(&options, |name| std::env::var(name).ok())?))
}
