export const SOURCES = 'https://github.com/shardwise/shardwise/blob/main';

/** Turns a doc comment into Markdown of a page, in which `<` would begin a tag, `{{` an expression and `*` emphasis. */
export function inline(text: string): string {
  return fenced(text)
    .split(/(```[^]*?```|`[^`]*`)/)
    .map((part, index) =>
      index % 2 === 1
        ? part.replaceAll('{{', '{\u200B{')
        : part
            .replaceAll('<', '&lt;')
            .replaceAll('{{', '&#123;&#123;')
            .replaceAll('|', '\\|')
            .replaceAll('*', '\\*')
            .replaceAll('](', ']\\('),
    )
    .join('');
}

/** Turns indented lines between paragraphs into fenced code. They are code or a drawing, which keeps its blanks. */
function fenced(text: string): string {
  return text.replaceAll(
    /(^|\n\n)((?: {4,}.*(?:\n(?= {4})|(?=\n|$)))+)/g,
    (_, before: string, lines: string) => {
      const indent = Math.min(...lines.split('\n').map((line) => line.search(/\S|$/)));
      const code = lines.split('\n').map((line) => line.slice(indent));
      // Code contains calls or semicolons, and a drawing does not.
      const language = /[(;]/.test(lines) ? 'ts' : 'text';
      return `${before}\`\`\`${language}\n${code.join('\n')}\n\`\`\``;
    },
  );
}

export function sourceLink(path: string, line: number): string {
  return `<small>Source: [${path.split('/').at(-1)}](${SOURCES}/${path}#L${line})</small>`;
}
