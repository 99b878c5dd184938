//! What tests of conversations say again and again.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolcell_agent::{
    Conversation, ConversationError, ConversationOptions, Message, NoEvents, RunResult, WhilePending,
};
use toolcell_contract::{Answer, ContentPart};

use super::Stage;

pub fn conversation(stage: &Stage, while_pending: WhilePending) -> Conversation {
    let options = ConversationOptions { while_pending, ..ConversationOptions::default() };
    Conversation::new(stage.agent.clone(), options).unwrap()
}

pub async fn answer(conversation: &Conversation, answers: Vec<Answer>) -> Result<Arc<RunResult>, ConversationError> {
    conversation.answer(answers, Arc::new(NoEvents), CancellationToken::new()).await
}

/// What the person has said, in order.
pub fn said(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::User { content } => match content.as_slice() {
            [ContentPart::Text(text)] => Some(text.clone()),
            other => panic!("{other:?}"),
        },
        _ => None,
    };
    messages.iter().filter_map(text).collect()
}

pub fn ids(conversation: &Conversation) -> Vec<String> {
    conversation.questions().into_iter().map(|question| question.request.id).collect()
}

/// Lets everything else go on as far as it can.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
