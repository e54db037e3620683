//! A request with the protocol that it came by: what is answered to it is spelled as that protocol has it.
//!
//! Whoever answers sees no difference between protocols.

use cannery_site::{Answer, Method};
use cannery_wire::h1;
use cannery_wire::{Output, RequestHead, ServerFields, Version};

use crate::dummy::Dummy;
use crate::own_page::OwnPage;

/// A request that is to be answered once.
pub(crate) trait Exchange<'a> {
    /// The request.
    fn head(&self) -> &'a RequestHead<'a>;

    /// Spells the answer of a site. `archive` is the file that its ranges are of.
    fn answer(&mut self, answer: &Answer<'_>, archive: &[u8], fields: &ServerFields, output: &mut Output);

    /// Spells a page of the server's own.
    fn answer_page(&mut self, page: &OwnPage<'_>, fields: &ServerFields, output: &mut Output);

    /// Spells an answer of `--dummy`.
    fn answer_dummy(&mut self, dummy: &Dummy, output: &mut Output);
}

/// A request of HTTP/1.
pub(crate) struct OnH1<'a, 'c> {
    pub(crate) http: &'c mut h1::Connection,
    pub(crate) head: &'a h1::Head<'a>,
}

impl<'a> Exchange<'a> for OnH1<'a, '_> {
    #[inline]
    fn head(&self) -> &'a RequestHead<'a> {
        &self.head.asked
    }

    #[inline]
    fn answer(&mut self, answer: &Answer<'_>, archive: &[u8], fields: &ServerFields, output: &mut Output) {
        self.http.answer(self.head, answer, archive, fields, output);
    }

    fn answer_page(&mut self, page: &OwnPage<'_>, fields: &ServerFields, output: &mut Output) {
        let keeps = self.http.keeps_open(self.head);
        let is_head = self.head.asked.request.method == Method::Head;
        let option = h1::connection_option(keeps, self.head);
        self.http.answer_spelled(self.head, &page.spell(is_head, option, fields.lines(0)), output);
    }

    #[inline]
    fn answer_dummy(&mut self, dummy: &Dummy, output: &mut Output) {
        let bytes = match (self.http.keeps_open(self.head), self.head.asked.version) {
            (true, Version::Http10) => &dummy.keep_alive,
            (true, _) => &dummy.plain,
            (false, _) => &dummy.close,
        };
        // What follows an answer to HEAD is the next answer, here too.
        let is_head = self.head.asked.request.method == Method::Head;
        let sent = if is_head { bytes.len() - dummy.body.len() } else { bytes.len() };
        self.http.answer_spelled(self.head, &bytes[..sent], output);
    }
}
