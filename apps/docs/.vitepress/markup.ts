import type { MarkdownRenderer } from 'vitepress';

/**
 * Adds to the HTML of Markdown what accessibility needs: empty corners of tables are no headers, and code that scrolls
 * can be reached by keys.
 */
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
