import type { MarkdownRenderer } from 'vitepress';

/**
 * Adds to the HTML of Markdown what accessibility needs: empty corners of tables are no headers, and code that scrolls
 * can be reached by keys. Names in tables get places at which a phone may break them.
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
  md.core.ruler.push('code-in-tables', ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      if (token.type !== 'inline' || tokens[index - 1]?.type !== 'td_open') continue;
      for (const child of token.children ?? []) child.meta = { isInTable: true };
    }
  });
  const render = md.renderer.rules.code_inline;
  md.renderer.rules.code_inline = (tokens, index, options, env, self) => {
    const html = render?.(tokens, index, options, env, self) ?? '';
    const meta: unknown = tokens[index]?.meta;
    return html.replace(/>([^<]*)</, (_, text: string) => {
      const whole = keepOptions(text);
      return `>${meta === null ? whole : breakable(whole)}<`;
    });
  };
}

/** Keeps the dashes of an option such as `--nproc` with its name. Lines would otherwise end behind them. */
function keepOptions(code: string): string {
  return code.replaceAll(/(^|\s)(-{1,2}[a-z][\w-]*)/g, '$1<span class="cli-option">$2</span>');
}

/** Lets lines end within long names: behind dots, underscores and brackets, and before capitals. Options stay whole. */
function breakable(code: string): string {
  return code
    .split(/(<span.*?<\/span>)/)
    .map((part, index) =>
      index % 2 === 1
        ? part
        : part.replaceAll(/(?<=\w)(?:[._/](?=\w)|\((?!\)))|[a-z](?=[A-Z][a-z])/g, '$&<wbr>'),
    )
    .join('');
}
