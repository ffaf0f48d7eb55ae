//! Redirections and here-documents, which are skipped.

use super::Reader;

impl Reader {
    /// Skips an operator and its target. Process substitution counts as a target.
    pub(super) fn redirection(&mut self) {
        let mut operator = String::new();
        while let Some(char) = self.script.peek(0).filter(|char| matches!(char, '<' | '>' | '&' | '|')) {
            operator.push(char);
            self.script.take();
        }
        if operator == "<<" {
            let strips = self.script.peek(0) == Some('-');
            if strips {
                self.script.take();
            }
            self.blanks();
            let delimiter: String = self.word().into_iter().map(|word| word.text).collect();
            self.documents.push((delimiter, strips));
            return;
        }
        if self.script.peek(0) == Some('(') {
            self.parenthesis('(', ')');
            return;
        }
        self.blanks();
        if self.script.peek(0) == Some('>') || self.script.peek(0) == Some('<') {
            // `> >(command)`
            self.script.take();
            if self.script.peek(0) == Some('(') {
                self.parenthesis('(', ')');
            }
        } else if self.script.peek(0).is_some_and(|char| !matches!(char, '\n' | ';' | '&' | '|')) {
            self.word();
        }
    }

    fn blanks(&mut self) {
        while matches!(self.script.peek(0), Some(' ' | '\t')) {
            self.script.take();
        }
    }

    pub(super) fn skip_documents(&mut self) {
        for (delimiter, strips) in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                let mut ended = true;
                while let Some(char) = self.script.take() {
                    if char == '\n' {
                        ended = false;
                        break;
                    }
                    line.push(char);
                }
                let line = if strips { line.trim_start_matches('\t') } else { &line };
                if line == delimiter || ended {
                    break;
                }
            }
        }
    }
}
