//! The interruption queue: receives and deletes messages of SQS.

use std::sync::{Arc, PoisonError, RwLock};

use aws_sdk_sqs::types::DeleteMessageBatchRequestEntry;
use muster_cloud::{CloudError, Message, NoticeQueue, Pending};

use super::caller::{Caller, Failure};
use super::cloud::Ec2Cloud;
use super::connection::Connection;
use crate::error_codes::Meaning;
use crate::messages;
use crate::rate_limits::Family;

/// Maximum number of messages of one call, also for their deletion: the limit of SQS.
const MOST: i32 = 10;
/// Time for which SQS waits for a message: its limit.
const WAIT: i32 = 20;
/// Time for which a received message is hidden. Acting upon one takes a write or two.
const HIDDEN: i32 = 20;

/// A queue of the account, by name.
#[derive(Debug)]
pub struct Queue {
    aws: Connection,
    caller: Arc<Caller>,
    name: String,
    /// URL, once it is known. Locked briefly, never across an await.
    url: RwLock<Option<String>>,
}

impl Ec2Cloud {
    /// Returns the queue of this name in the account and region of the credentials. It need not exist yet.
    #[must_use]
    pub fn queue(&self, name: &str) -> Queue {
        let (aws, caller) = (self.0.aws.clone(), Arc::clone(&self.0.caller));
        Queue { aws, caller, name: name.to_owned(), url: RwLock::default() }
    }
}

// === impl Queue ===

impl Queue {
    fn known(&self) -> Option<String> {
        self.url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, url: Option<String>) {
        *self.url.write().unwrap_or_else(PoisonError::into_inner) = url;
    }

    async fn url(&self) -> Result<String, CloudError> {
        if let Some(url) = self.known() {
            return Ok(url);
        }
        let ask = || self.aws.sqs.get_queue_url().queue_name(&self.name).send();
        let asked = self.caller.call(Family::Queue, "sqs:GetQueueUrl", ask).await;
        let answer = asked.map_err(|failure| self.error(failure))?;
        let url = answer.queue_url().unwrap_or_default().to_owned();
        self.note(Some(url.clone()));
        Ok(url)
    }

    /// Converts a failure. A queue that was deleted and created again has its old URL or, in another account, another
    /// one, so it is looked for again.
    fn error(&self, failure: Failure) -> CloudError {
        if failure.meaning() == Meaning::NotFound {
            self.note(None);
        }
        failure.into_error(&format!("queue {}", self.name))
    }

    async fn receive_some(&self) -> Result<Vec<Message>, CloudError> {
        let url = self.url().await?;
        let ask = || {
            let call = self.aws.sqs.receive_message().queue_url(&url).max_number_of_messages(MOST);
            call.wait_time_seconds(WAIT).visibility_timeout(HIDDEN).send()
        };
        let asked = self.caller.call(Family::Queue, "sqs:ReceiveMessage", ask).await;
        let answer = asked.map_err(|failure| self.error(failure))?;
        let messages = answer.messages.unwrap_or_default().into_iter().filter_map(|message| {
            let content = messages::read(message.body.as_deref().unwrap_or_default());
            Some(Message { handle: message.receipt_handle?, content })
        });
        Ok(messages.collect())
    }

    async fn delete_all(&self, handles: Vec<String>) -> Result<usize, CloudError> {
        let url = self.url().await?;
        let mut deleted = 0;
        for some in handles.chunks(MOST as usize) {
            let entries = some.iter().enumerate().map(|(number, handle)| {
                DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(handle).build()
            });
            let entries: Vec<_> = entries
                .collect::<Result<_, _>>()
                .map_err(|error| CloudError::Transient { message: format!("a message cannot be deleted: {error}") })?;
            let ask = || self.aws.sqs.delete_message_batch().queue_url(&url).set_entries(Some(entries.clone())).send();
            let asked = self.caller.call(Family::Queue, "sqs:DeleteMessage", ask).await;
            let answer = asked.map_err(|failure| self.error(failure))?;
            deleted += answer.successful().len();
        }
        Ok(deleted)
    }
}

impl NoticeQueue for Queue {
    fn receive(&self) -> Pending<'_, Vec<Message>> {
        Box::pin(self.receive_some())
    }

    fn delete(&self, handles: Vec<String>) -> Pending<'_, usize> {
        Box::pin(self.delete_all(handles))
    }
}
