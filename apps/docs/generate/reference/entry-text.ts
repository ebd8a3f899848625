import { inline, sourceLink } from '../markdown.ts';
import type { Member } from '../declarations.ts';
import type { Catalogue, Item, MovedMember } from './catalogue.ts';
import { anchorOf } from './anchors.ts';

/** Classes with more methods than this have a heading for each, so that links and the search lead to it. */
const MOST_IN_ONE_BLOCK = 6;
const MOST_USERS = 12;

/** The text of the names of a catalogue. Links lead to other pages of the reference. */
export class EntryText {
  readonly #catalogue: Catalogue;
  readonly #users: ReadonlyMap<string, readonly string[]>;

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue;
    this.#users = usersOf(catalogue);
  }

  /** Returns a link to the description of a name, or the name where there is none. */
  link(name: string, text: string = name): string {
    const home = this.#catalogue.homeOf(name);
    return home === undefined ? `\`${text}\`` : `[\`${text}\`](/reference/${pathOf(home)})`;
  }

  /** Returns a doc comment, in which names of other entries are links. */
  prose(text: string, own: string): string {
    return inline(text)
      .split(/(```[^]*?```)/)
      .map((part, index) =>
        index % 2 === 1
          ? part
          : part.replaceAll(
              /(?<![`[])`(\w*[a-z][A-Z]\w*|[A-Z]\w+)(\(\))?`/g,
              (code, name, call = '') =>
                name === own || this.#catalogue.homeOf(name) === undefined
                  ? code
                  : this.link(name, `${name}${call}`),
            ),
      )
      .join('');
  }

  /** The description of an entry. `level` is that of its heading. */
  of(item: Item, level: 2 | 3): string {
    const { entry, anchor, title } = item;
    const shown = this.#catalogue
      .ownMembers(item)
      .filter((member) => !this.#isMoved(item, member) && !isPlainConstructor(member));
    const isLong = entry.kind === 'class' && level === 2 && shown.length > MOST_IN_ONE_BLOCK;
    const block =
      entry.kind === 'class'
        ? classBlock(entry.signatures[0] ?? '', isLong ? [] : shown)
        : entry.signatures.join('\n\n');
    const isType = entry.kind === 'interface' || entry.kind === 'type';
    const users = isType ? (this.#users.get(entry.name) ?? []) : [];
    return joined([
      `${'#'.repeat(level)} ${title} {#${anchor}}`,
      this.prose(entry.text, entry.name),
      `\`\`\`ts\n${block}\n\`\`\``,
      ...this.#catalogue
        .parentsOf(item)
        .map((name) => `It has the members of ${this.link(name)}, too.`),
      // A type such as Tensor is used nearly everywhere, so its users are not listed.
      users.length === 0 || users.length > MOST_USERS
        ? ''
        : `Used by ${users.map((name) => this.link(name)).join(', ')}.`,
      ...(isLong ? [...byName(shown)].map((each) => this.#member(item, each, 3)) : []),
      sourceLink(entry.source.path, entry.source.line),
    ]);
  }

  /** The description of methods that are on another page than their class. */
  moved(members: readonly MovedMember[]): readonly string[] {
    const owners = Map.groupBy(members, ({ owner }) => owner);
    return [...owners].flatMap(([owner, each]) =>
      [...byName(each.map(({ member }) => member))].map((same) => this.#member(owner, same, 2)),
    );
  }

  /** A table of methods with one line for each. `slug` is the page that describes them. */
  overview(owner: Item, members: readonly Member[], slug: string): string {
    const rows = [...byName(members)].map((same) => {
      const [{ name, text } = { name: '', text: '' }] = same;
      const line = inline(firstSentence(same.find((each) => each.text !== '')?.text ?? text));
      return `| [\`${name}\`](/reference/${slug}.md#${memberAnchor(owner, name)}) | ${line} |`;
    });
    return ['| method | what it does |', '| --- | --- |', ...rows].join('\n');
  }

  #isMoved(owner: Item, member: Member): boolean {
    return this.#catalogue.pages.some(({ members }) =>
      members.some((moved) => moved.owner.entry === owner.entry && moved.member === member),
    );
  }

  #member(owner: Item, same: readonly Member[], level: 2 | 3): string {
    const [{ name } = { name: '' }] = same;
    const code = same.flatMap(({ signatures }) => signatures).map((line) => line.replace(/;$/, ''));
    return joined([
      `${'#'.repeat(level)} ${name} {#${memberAnchor(owner, name)}}`,
      `\`\`\`ts\n${code.join('\n')}\n\`\`\``,
      ...same.map(({ text }) => this.prose(text, name)),
    ]);
  }
}

const isPlainConstructor = ({ text, signatures }: Member): boolean =>
  text === '' && signatures.every((line) => /^constructor\(\);?$/.test(line));

/** The link to a home such as `nn/linear#linear`, in Markdown. */
export const pathOf = (home: string): string => home.replace('#', '.md#');

const memberAnchor = ({ entry }: Item, name: string): string => anchorOf(`${entry.name}-${name}`);

const joined = (parts: readonly string[]): string =>
  parts.filter((part) => part !== '').join('\n\n');

function byName(members: readonly Member[]): Iterable<readonly Member[]> {
  return Map.groupBy(members, ({ name }) => name).values();
}

function firstSentence(text: string): string {
  const [sentence = ''] = /^[^]*?\.(?=\s|$)/.exec(text.replaceAll('\n', ' ')) ?? [text];
  return sentence;
}

function classBlock(head: string, members: readonly Member[]): string {
  return members.length === 0 ? head : `${head} {\n${members.map(memberLines).join('\n')}\n}`;
}

function memberLines({ text, signatures }: Member): string {
  // A page breaks lines where it is as wide as they are. Those of lists and examples stay.
  const lines = text.replaceAll(/(?<!\n)\n(?![\n\s-])/g, ' ').split('\n');
  const comment =
    text === '' ? '' : `  /** ${lines.join('\n   * ')}${lines.length > 1 ? '\n   ' : ' '}*/\n`;
  return comment + signatures.map((line) => `  ${line.replace(/;$/, '')};`).join('\n');
}

/** The functions and classes whose signatures name each type. */
function usersOf({ pages }: Catalogue): ReadonlyMap<string, readonly string[]> {
  const users = new Map<string, Set<string>>();
  for (const { entry } of pages.flatMap(({ items }) => items)) {
    const { name, kind, signatures, members } = entry;
    if (kind !== 'function' && kind !== 'class') continue;
    const texts = [...signatures, ...members.flatMap((member) => member.signatures)];
    for (const word of texts.join(' ').match(/\b[A-Z]\w+/g) ?? []) {
      if (word !== name) users.set(word, (users.get(word) ?? new Set()).add(name));
    }
  }
  return new Map([...users].map(([type, names]) => [type, [...names].toSorted()]));
}
