export const SOURCES = 'https://github.com/shardwise/shardwise/blob/main';

/** A doc comment as Markdown of a page, where `<` would begin a tag and `{{` an expression. */
export function inline(text: string): string {
  return text
    .split(/(```[^]*?```|`[^`]*`)/)
    .map((part, index) =>
      index % 2 === 1
        ? part.replaceAll('{{', '{\u200B{')
        : part
            .replaceAll('<', '&lt;')
            .replaceAll('{{', '&#123;&#123;')
            .replaceAll('|', '\\|')
            .replaceAll('](', ']\\('),
    )
    .join('')
    .replaceAll(/^( {2,})/gm, (blanks) => '&nbsp;'.repeat(blanks.length));
}

export function sourceLink(path: string, line: number): string {
  return `<small>Source: [${path}](${SOURCES}/${path}#L${line})</small>`;
}
