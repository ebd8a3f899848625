import type { MarkdownRenderer } from 'vitepress';

/** What HTML asks of pages and Markdown does not say: corners of tables are no headers, and code that scrolls is reached by keys. */
export function accessibleMarkup(md: MarkdownRenderer): void {
  md.core.ruler.push('empty-headers', ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      const [text, close] = tokens.slice(index + 1);
      if (token.type !== 'th_open' || text?.content !== '' || close?.type !== 'th_close') continue;
      token.tag = 'td';
      close.tag = 'td';
    }
  });
  md.core.ruler.push('code-by-keys', ({ tokens }) => {
    for (const token of tokens) if (token.type === 'code_block') token.attrSet('tabindex', '0');
  });
}
