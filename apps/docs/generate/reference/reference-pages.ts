import type { Group } from '../declarations.ts';
import type { GeneratedPage } from '../page.ts';
import { Catalogue, type Door, type Item, type Page } from './catalogue.ts';
import { EntryText, pathOf } from './entry-text.ts';

/** Makes a page for each topic of the reference, the index, and a page with all names. */
export function referencePages(groups: readonly Group[]): readonly GeneratedPage[] {
  const catalogue = new Catalogue(groups);
  const text = new EntryText(catalogue);
  return [
    ...catalogue.pages.map((page) => topicPage(page, catalogue, text)),
    indexPage(catalogue.pages),
    namesPage(catalogue.namesOf('values'), {
      path: 'reference/names.md',
      title: 'All names',
      about: 'The functions, classes and values that the packages export.',
    }),
    namesPage(catalogue.namesOf('types'), {
      path: 'reference/types.md',
      title: 'All types',
      about: 'The interfaces and types that the packages export.',
    }),
  ];
}

function topicPage(page: Page, catalogue: Catalogue, text: EntryText): GeneratedPage {
  const { topic, section, items, members } = page;
  const forUsers = items.filter(({ isForAuthors }) => !isForAuthors);
  const forAuthors = items.filter(({ isForAuthors }) => isForAuthors);
  const main = forUsers.length === 0 ? forAuthors : forUsers;
  const isType = ({ entry: { kind } }: Item): boolean => kind === 'interface' || kind === 'type';
  const parts = [
    // Names have no anchors that begin with an underscore.
    `# ${topic.title} {#_top}`,
    topic.about,
    importsOf(main, members.length > 0),
    ...text.moved(members),
    ...main.filter((item) => !isType(item)).map((item) => text.of(item, 2)),
    ...overviews(page, catalogue, text),
    ...listed('Types', main.filter(isType), text),
    ...(main === forAuthors ? [] : listed('For authors', forAuthors, text, true)),
  ];
  return {
    path: `reference/${topic.slug}.md`,
    title: topic.title,
    about: topic.about,
    section,
    text: parts.filter((part) => part !== '').join('\n\n'),
  };
}

function listed(
  title: string,
  items: readonly Item[],
  text: EntryText,
  withImport = false,
): readonly string[] {
  if (items.length === 0) return [];
  return [
    `## ${title}`,
    withImport ? importsOf(items, false) : '',
    ...items.map((item) => text.of(item, 3)),
  ];
}

/** Tables of the methods of a class whose methods are on pages below its page. */
function overviews(page: Page, catalogue: Catalogue, text: EntryText): readonly string[] {
  const below = catalogue.pages.filter(({ members }) =>
    members.some(({ owner }) => page.items.some(({ entry }) => entry === owner.entry)),
  );
  return below.flatMap(({ topic, members }) => {
    const [first] = members;
    if (first === undefined) return [];
    const title = topic.title.replace(/^.*?: /, '');
    const heading = title.charAt(0).toUpperCase() + title.slice(1);
    return [
      `## ${heading} {#methods-${topic.slug.split('/').at(-1)}}`,
      `${topic.about} [More](/reference/${topic.slug}.md)`,
      text.overview(
        first.owner,
        members.map(({ member }) => member),
        topic.slug,
      ),
    ];
  });
}

const MOST_NAMES = 4;

/** The lines that import what a page describes, and the other packages that export it. */
function importsOf(items: readonly Item[], hasMethods: boolean): string {
  const values = items.filter(({ entry: { kind } }) => kind !== 'interface' && kind !== 'type');
  const shown = values.length > 0 ? values : items;
  if (shown.length === 0 || (hasMethods && values.length === 0)) return '';
  const byDoor = Map.groupBy(shown, ({ doors: [door] }) => door?.specifier ?? '');
  const lines = [...byDoor].map(([specifier, each]) => {
    const names = new Set(each.map(({ doors: [door], entry }) => door?.path[0] ?? entry.name));
    const list = [...names].slice(0, MOST_NAMES).join(', ');
    const isType = values.length === 0 && !each.some(({ doors: [door] }) => door?.path[0]);
    const rest = names.size > MOST_NAMES ? ', …' : '';
    return `import ${isType ? 'type ' : ''}{ ${list}${rest} } from '${specifier}';`;
  });
  const others = new Set(
    items.flatMap(({ doors }) => doors.slice(1).map((door: Door) => door.specifier)),
  );
  for (const specifier of byDoor.keys()) others.delete(specifier);
  const also = [...others].map((specifier) => `\`${specifier}\``).join(', ');
  return [
    `\`\`\`ts\n${lines.join('\n')}\n\`\`\``,
    also === '' ? '' : `<small>Also exported by ${also}.</small>`,
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

/** Pages of the reference that are not about exports. */
const lookups = [
  ['./names.md', 'All names', 'Every function, class and value that the packages export.'],
  ['./types.md', 'All types', 'Every interface and type that the packages export.'],
  ['./generated/errors.md', 'Errors', 'Error codes, with causes and remedies.'],
  ['./generated/command-line.md', 'Command line', 'The options of `shardwise run` and others.'],
  ['./environment.md', 'Environment variables', 'Variables that programs and launchers read.'],
  ['./generated/limits.md', 'Limits of backends', 'What each backend supports.'],
  ['./browsers.md', 'Browsers', 'What a browser needs.'],
] as const;

function indexPage(pages: readonly Page[]): GeneratedPage {
  const sections = Map.groupBy(pages, ({ section }) => section);
  const list = [...sections].map(([title, each]) => {
    const rows = each.map(
      ({ topic }) =>
        `| [${topic.title}](./${topic.slug}.md) | ${topic.about.replaceAll('./', './')} |`,
    );
    return [`## ${title}`, ['| page | about |', '| --- | --- |', ...rows].join('\n')].join('\n\n');
  });
  const rows = lookups.map(([path, title, about]) => `| [${title}](${path}) | ${about} |`);
  return {
    path: 'reference/index.md',
    title: 'Reference',
    about: 'All classes, functions and types of the packages.',
    text: [
      '# Reference',
      'Programs import everything from `shardwise`. Each page also names the smaller packages that export the same. Signatures and descriptions are generated from the sources of the version from which this site was built.',
      '## Look up',
      ['| page | about |', '| --- | --- |', ...rows].join('\n'),
      ...list,
    ].join('\n\n'),
  };
}

function namesPage(
  names: ReadonlyMap<string, string>,
  page: Pick<GeneratedPage, 'path' | 'title' | 'about'>,
): GeneratedPage {
  const letters = Map.groupBy(
    [...names].toSorted(([a], [b]) => a.localeCompare(b)),
    ([name]) => name.charAt(0).toUpperCase(),
  );
  const text = [...letters].map(
    ([letter, each]) =>
      `## ${letter}\n\n${each.map(([name, home]) => `[${name}](./${pathOf(home)})`).join(' · ')}`,
  );
  return {
    ...page,
    text: [`# ${page.title}`, `${page.about} They are ${names.size}.`, ...text].join('\n\n'),
  };
}
