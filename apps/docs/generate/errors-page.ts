import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Group } from './declarations.ts';
import { inline, SOURCES } from './markdown.ts';
import { anchorOf } from './reference/anchors.ts';
import type { GeneratedPage } from './page.ts';
import { repository } from './packages.ts';
import { remedies } from './remedies.ts';

/** An error that the sources throw. `…` stands for what is filled in. */
interface Thrown {
  readonly type: string;
  readonly message: string;
  readonly path: string;
  readonly line: number;
}

const NEW_ERROR = /new (\w+Error)\(\s*\{/g;

/** Finds every `new …Error({ asked, found, todo })` in the packages' sources. */
function thrownErrors(): readonly Thrown[] {
  return globSync('packages/*/src/**/*.ts', { cwd: repository })
    .toSorted()
    .flatMap((path) => {
      const source = readFileSync(join(repository, path), 'utf8');
      return [...source.matchAll(NEW_ERROR)].flatMap((match): readonly Thrown[] => {
        const rest = source.slice(match.index, match.index + 1500);
        const part = (name: string): string | undefined => {
          const [, quote, text] =
            new RegExp(`\\b${name}:\\s*(?:\\n\\s*)?(['"\`])((?:\\\\.|(?!\\1)[^])*)\\1`).exec(
              rest,
            ) ?? [];
          return quote === undefined ? undefined : text;
        };
        const [asked, found, todo] = [part('asked'), part('found'), part('todo')];
        if (todo === undefined) return [];
        const message = `${asked ?? '…'}: ${found ?? '…'}. ${todo}`;
        return [
          {
            type: match[1] ?? '',
            message: withoutExpressions(message).replaceAll(/\\(['"`])/g, '$1'),
            path,
            line: source.slice(0, match.index).split('\n').length,
          },
        ];
      });
    });
}

/** Replaces each `${…}`, including templates in it, by `…`. */
function withoutExpressions(text: string): string {
  let result = '';
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    if (depth === 0 && text.startsWith('${', index)) {
      depth = 1;
      result += '…';
      index += 1;
    } else if (depth === 0) result += text[index];
    else if (text[index] === '{') depth += 1;
    else if (text[index] === '}') depth -= 1;
  }
  return result;
}

/** Makes the page with every error code, its class, its causes and remedies, and its messages. */
export function errorsPage(groups: readonly Group[]): GeneratedPage {
  const classes = groups
    .flatMap(({ entries }) => entries)
    .filter(({ kind, source }) => kind === 'class' && source.path.endsWith('spec/errors.ts'));
  const source = readFileSync(join(repository, 'packages/core/src/spec/errors.ts'), 'utf8');
  const thrown = Map.groupBy(thrownErrors(), ({ type }) => type);
  const seen = new Set<string>();
  const sections = classes.flatMap(({ name, text }) => {
    const [, code] =
      new RegExp(`class ${name} [^]*?code(?:: string)? = '(\\w+)'`).exec(source) ?? [];
    if (code === undefined || name === 'ShardwiseError' || seen.has(code)) return [];
    seen.add(code);
    const remedy = remedies[code];
    if (remedy === undefined) throw new Error(`${code} has no remedy in generate/remedies.ts`);
    const messages = (thrown.get(name) ?? []).map(
      ({ message, path, line }) =>
        `- ${inline(message)} ([${path.split('/').at(-1)}](${SOURCES}/${path}#L${line}))`,
    );
    const list =
      messages.length === 0
        ? ''
        : `::: details ${messages.length} messages with this code\n\n${messages.join('\n')}\n\n:::`;
    return [
      `## ${code} {#${anchorOf(code)}}\n\n\`${name}\`: ${inline(text)}`,
      `**Cause.** ${remedy.cause}`,
      `**What to do.** ${remedy.todo}`,
      list,
    ];
  });
  return {
    path: 'reference/generated/errors.md',
    title: 'Errors',
    text: [
      '# Errors',
      'Every error that you can meet is a `ShardwiseError`. Its message says what was asked, what was found and what to do. Its `code` is one of those below and does not change; its `fields` hold the numbers of the message. `ShardwiseError.isInstance(error)` also finds errors of another copy of the package.',
      'The messages are taken from the sources. `…` stands for a name or number of your program.',
      ...sections,
    ]
      .filter((part) => part !== '')
      .join('\n\n'),
  };
}
