/** A fenced block of TypeScript in a markdown file. */
export interface CodeBlock {
  /** `packages/core/README.md:12`, the line of the fence. */
  readonly name: string;
  /** A `program` is complete and runs; a `fragment` is only type-checked. */
  readonly kind: 'program' | 'fragment';
  /** With the declarations of a comment that stands directly above a fragment. */
  readonly code: string;
  /** What a program must print, in this order: the texts of its `// prints …` comments. */
  readonly prints: readonly string[];
}

const FENCE =
  /(?:<!-- ts\n(?<declarations>[^]*?)-->\s*)?^```ts(?<words>[^\n]*)\n(?<code>[^]*?)^```$/gm;

/**
 * The blocks marked `ts`. Throws where the mark has other words than `fragment`: a misspelt one
 * would be run, or not be checked.
 */
export function codeBlocks(file: string, markdown: string): readonly CodeBlock[] {
  return [...markdown.matchAll(FENCE)].map((match) => {
    const { declarations = '', words = '', code = '' } = match.groups ?? {};
    const fence = match.index + match[0].indexOf('```ts');
    const name = `${file}:${markdown.slice(0, fence).split('\n').length}`;
    const kind = words.trim() === '' ? 'program' : words.trim();
    if (kind !== 'program' && kind !== 'fragment') {
      throw new Error(`${name}: \`\`\`ts${words}. Mark a block \`\`\`ts or \`\`\`ts fragment`);
    }
    const prints = [...code.matchAll(/\/\/ prints (.*)$/gm)].map(([, text = '']) => text.trim());
    return { name, kind, code: declarations + code, prints };
  });
}
