import { anchorsOf } from './anchors.ts';
import { readGroups, type Entry, type Group, type Member } from './declarations.ts';
import type { GeneratedPage } from './page.ts';
import { inline, sourceLink } from './markdown.ts';

/** Returns the name of a group's page: `@shardwise/core nn.functional` is at `core-nn-functional`. */
export function slugOf({ entryPoint, path }: Group): string {
  const name = entryPoint.specifier.replace(/^@shardwise\//, '').replaceAll('/', '-');
  return [name, ...path].join('-');
}

function titleOf({ entryPoint, path }: Group): string {
  return path.length === 0 ? entryPoint.specifier : `${path.join('.')} of ${entryPoint.specifier}`;
}

const keyOf = ({ source, name }: Entry): string => `${source.path}:${source.line}:${name}`;

/**
 * Sorts groups. If several entry points export a name, the first one describes it, so entry points for users come first. The umbrella
 * package comes last, and describes only its own names.
 */
function inOrder(groups: readonly Group[]): readonly Group[] {
  const place = ({ entryPoint }: Group): number =>
    entryPoint.specifier.startsWith('shardwise')
      ? 3
      : entryPoint.specifier.endsWith('/extend')
        ? 2
        : /\/(spec|base)$/.test(entryPoint.specifier)
          ? 1
          : 0;
  return groups.toSorted((a, b) => place(a) - place(b));
}

/** Makes a page for each entry point and each of its groups, and a page with all names. */
export function apiPages(groups: readonly Group[] = readGroups()): readonly GeneratedPage[] {
  const homes = new Map<string, string>();
  for (const group of inOrder(groups)) {
    const own = group.entries.filter((entry) => !homes.has(keyOf(entry)));
    const anchors = anchorsOf(own.map(({ name }) => name));
    for (const entry of own) {
      homes.set(keyOf(entry), `${slugOf(group)}#${anchors.get(entry.name) ?? ''}`);
    }
  }
  const exported = new Map(
    groups.flatMap(({ entries }) =>
      entries.map((entry) => [entry.name, homes.get(keyOf(entry)) ?? ''] as const),
    ),
  );
  const reference: Reference = {
    homes: exported,
    anchorOf: (entry) => homes.get(keyOf(entry))?.replace(/^.*#/, '') ?? '',
    users: usersOf(groups),
  };
  const pages = groups.map((group): GeneratedPage => {
    const own = group.entries.filter(
      (entry) => homes.get(keyOf(entry))?.startsWith(`${slugOf(group)}#`) === true,
    );
    const others = group.entries.filter((entry) => !own.includes(entry));
    const nested = groups.filter(
      ({ entryPoint, path }) =>
        entryPoint === group.entryPoint &&
        path.length === group.path.length + 1 &&
        group.path.every((name, index) => path[index] === name),
    );
    const from = `import { ${group.path[0] ?? '…'} } from '${group.entryPoint.specifier}';`;
    const kind = (kinds: readonly Entry['kind'][]): readonly Entry[] =>
      own.filter((entry) => kinds.includes(entry.kind));
    return {
      path: `reference/api/${slugOf(group)}.md`,
      title: titleOf(group),
      text: [
        `# ${titleOf(group)}`,
        inline(group.path.length === 0 ? `${group.entryPoint.description}.` : ''),
        `\`\`\`ts\n${from}\n\`\`\``,
        nested.length === 0
          ? ''
          : `Groups: ${nested.map((inner) => `[\`${inner.path.join('.')}\`](./${slugOf(inner)}.md)`).join(', ')}.`,
        ...section('Functions and values', kind(['function', 'value']), reference),
        ...section('Classes', kind(['class']), reference),
        ...section('Types', kind(['interface', 'type']), reference),
        others.length === 0
          ? ''
          : `## Also from here\n\nThese names are described on other pages: ${others
              .map(
                (entry) =>
                  `[\`${entry.name}\`](./${(homes.get(keyOf(entry)) ?? '').replace('#', '.md#')})`,
              )
              .join(', ')}.`,
      ]
        .filter((part) => part !== '')
        .join('\n\n'),
    };
  });
  return [...pages, namesPage(exported)];
}

/** What the text of one entry needs to know of all others. */
interface Reference {
  /** The page that describes each name. */
  readonly homes: ReadonlyMap<string, string>;
  /** Returns the anchor of an entry on its page. */
  readonly anchorOf: (entry: Entry) => string;
  /** The functions and classes whose signatures name each type. */
  readonly users: ReadonlyMap<string, readonly string[]>;
}

function usersOf(groups: readonly Group[]): ReadonlyMap<string, readonly string[]> {
  const users = new Map<string, Set<string>>();
  for (const { name, kind, signatures, members } of groups.flatMap(({ entries }) => entries)) {
    if (kind !== 'function' && kind !== 'class') continue;
    const texts = [...signatures, ...members.flatMap((member) => member.signatures)];
    for (const word of texts.join(' ').match(/\b[A-Z]\w+/g) ?? []) {
      if (word !== name) users.set(word, (users.get(word) ?? new Set()).add(name));
    }
  }
  return new Map([...users].map(([type, names]) => [type, [...names].toSorted()]));
}

function section(
  title: string,
  entries: readonly Entry[],
  reference: Reference,
): readonly string[] {
  if (entries.length === 0) return [];
  return [`## ${title}`, ...entries.map((entry) => entryText(entry, reference))];
}

const MOST_USERS = 12;

function entryText(entry: Entry, { homes, anchorOf, users }: Reference): string {
  const link = (name: string): string =>
    `[\`${name}\`](./${(homes.get(name) ?? '').replace('#', '.md#')})`;
  const isType = entry.kind === 'interface' || entry.kind === 'type';
  const names = isType ? (users.get(entry.name) ?? []) : [];
  const inherited = entry.members.filter(
    ({ declaredBy }) => declaredBy !== entry.name && homes.has(declaredBy),
  );
  const shown = entry.members.filter((member) => !inherited.includes(member));
  const code =
    entry.kind === 'class'
      ? `${entry.signatures[0] ?? ''} {\n${shown.map(memberText).join('\n')}\n}`
      : entry.signatures.join('\n\n');
  const parents = [...new Set(inherited.map(({ declaredBy }) => declaredBy))].map((parent) => {
    const members = inherited.filter(({ declaredBy }) => declaredBy === parent);
    return `From ${link(parent)}: ${members.map(({ name }) => `\`${name}\``).join(', ')}.`;
  });
  return [
    `### ${entry.name} {#${anchorOf(entry)}}`,
    inline(entry.text),
    `\`\`\`ts\n${code}\n\`\`\``,
    ...parents,
    // A type such as Tensor is used nearly everywhere, so its users are not listed.
    names.length === 0 || names.length > MOST_USERS ? '' : `Used by ${names.map(link).join(', ')}.`,
    sourceLink(entry.source.path, entry.source.line),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

function memberText({ text, signatures }: Member): string {
  const comment =
    text === ''
      ? ''
      : `  /** ${text.split('\n').join('\n   * ')}${text.includes('\n') ? '\n   ' : ' '}*/\n`;
  return comment + signatures.map((line) => `  ${line.replace(/;$/, '')};`).join('\n');
}

function namesPage(exported: ReadonlyMap<string, string>): GeneratedPage {
  const letters = Map.groupBy(
    [...exported].toSorted(([a], [b]) => a.localeCompare(b)),
    ([name]) => name.charAt(0).toUpperCase(),
  );
  const text = [...letters].map(
    ([letter, names]) =>
      `## ${letter}\n\n${names.map(([name, link]) => `[\`${name}\`](./${link.replace('#', '.md#')})`).join(' · ')}`,
  );
  return {
    path: 'reference/api/names.md',
    title: 'All names',
    text: ['# All names', `All ${exported.size} names that the packages export.`, ...text].join(
      '\n\n',
    ),
  };
}
