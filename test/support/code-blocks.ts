/** A fenced block of TypeScript in a markdown file. */
export interface CodeBlock {
  /** The file and the line of the fence, such as `packages/core/README.md:12`. */
  readonly name: string;
  /** A `program` is complete and runs; a `fragment` is only type-checked. */
  readonly kind: 'program' | 'fragment';
  /** The code. A fragment includes the declarations in a comment directly above it. */
  readonly code: string;
  /** The texts that a program must print, in this order. They come from its `// prints …` comments. */
  readonly prints: readonly string[];
}

const FENCE =
  /(?:<!-- ts\n(?<declarations>[^]*?)-->\s*)?^```ts(?<words>[^\n]*)\n(?<code>[^]*?)^```$/gm;

/**
 * Returns the blocks marked `ts`. Throws if the mark has a word other than `fragment`, because a misspelt one would be
 * run or not be checked.
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
