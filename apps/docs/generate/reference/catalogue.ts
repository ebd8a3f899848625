import { anchorsOf } from './anchors.ts';
import type { Entry, Group, Member } from '../declarations.ts';
import type { Topic } from './topic.ts';
import { sections, slugsInOrder } from './topics.ts';

/** A way to import a name: `nn.Linear` from `shardwise` has the path `['nn']`. */
export interface Door {
  readonly specifier: string;
  readonly path: readonly string[];
}

/** An export with all ways to import it, and its place in the reference. */
export interface Item {
  readonly entry: Entry;
  /** The ways to import it. The one that most programs use comes first. */
  readonly doors: readonly Door[];
  /** What a program writes after the import, such as `nn.Linear`. */
  readonly title: string;
  /** Whether only authors of backends, strategies and modules can import it. */
  readonly isForAuthors: boolean;
  readonly anchor: string;
}

/** A method of a class that is described on another page than its class. */
export interface MovedMember {
  readonly owner: Item;
  readonly member: Member;
}

/** What one page describes. */
export interface Page {
  readonly topic: Topic;
  readonly section: string;
  readonly items: readonly Item[];
  readonly members: readonly MovedMember[];
}

/** The order in which entry points are looked at. Programs import most names from the first ones. */
const FIRST = ['shardwise', '@shardwise/core', 'shardwise/browser'];

/** Entry points with names that programs do not need. */
const isForAuthors = ({ specifier }: Door): boolean => /\/(extend|spec|base|node)$/.test(specifier);

const isOfOnePurpose = ({ specifier }: Door): boolean =>
  /testing|wasm-assembler|collectives\/node/.test(specifier);

function inOrder(doors: readonly Door[]): readonly Door[] {
  const place = (door: Door): number => {
    const index = FIRST.indexOf(door.specifier);
    if (index !== -1) return index;
    return isForAuthors(door) ? FIRST.length + 1 : FIRST.length;
  };
  return doors.toSorted((a, b) => place(a) - place(b));
}

const keyOf = ({ source, name }: Entry): string => `${source.path}:${source.line}:${name}`;

const isSame = (a: Member, b: Member): boolean =>
  a.name === b.name && a.declaredBy === b.declaredBy && a.name !== 'constructor';

/** The path of a source as topics write it, without `packages/` and `src/`. */
const placeOf = (path: string): string => path.replace(/^packages\//, '').replace(/\/src\//, '/');

/** Puts the names that a title mentions first, in its order, and then all others by the alphabet. */
function byTitle(title: string): (a: Draft, b: Draft) => number {
  const words = title.split(/[^\w]+/);
  const place = ({ entry: { name } }: Draft): number => {
    const index = words.indexOf(name);
    return index === -1 ? words.length : index;
  };
  return (a, b) => place(a) - place(b) || a.entry.name.localeCompare(b.entry.name);
}

interface Draft extends Omit<Item, 'anchor'> {
  readonly topic: Topic;
}

const allTopics = sections.flatMap(({ topics }) => topics);

/** Returns the topic of a name. A name that no topic has gets one of its group or its folder. */
function topicOf(path: string, name: string, group: readonly string[]): Topic {
  const place = placeOf(path);
  const found = allTopics.find(({ from }) => from.test(`${place}#${name}`));
  if (found !== undefined) return found;
  const slug = group.length > 0 ? group.join('/') : place.split('/').slice(0, -1).join('/');
  const title = (slug.split('/').at(-1) ?? slug).replaceAll('-', ' ');
  return {
    slug: slug.toLowerCase(),
    title: title.charAt(0).toUpperCase() + title.slice(1),
    about: `What \`${group.join('.') || place.split('/')[0]}\` exports for ${title}.`,
    from: /^$/,
  };
}

/** The pages of the reference, and where each name is described. */
export class Catalogue {
  readonly pages: readonly Page[];
  readonly #homes = new Map<string, string>();
  readonly #classes = new Map<string, Entry>();
  readonly #values = new Set<string>();

  constructor(groups: readonly Group[]) {
    const doors = Map.groupBy(
      groups.flatMap(({ entryPoint, path, entries }) =>
        entries.map((entry) => ({ entry, door: { specifier: entryPoint.specifier, path } })),
      ),
      ({ entry }) => keyOf(entry),
    );
    const drafts = [...doors.values()].flatMap((found): Draft | [] => {
      const [first] = found;
      if (first === undefined) return [];
      const ways = inOrder(found.map(({ door }) => door));
      const [{ path } = { path: [] }] = ways;
      return {
        entry: first.entry,
        doors: ways,
        title: [...path, first.entry.name].join('.'),
        isForAuthors: ways.every(isForAuthors) && !ways.some(isOfOnePurpose),
        topic: topicOf(first.entry.source.path, first.entry.name, path),
      };
    });
    for (const { entry } of drafts) {
      if (entry.kind === 'class') this.#classes.set(entry.name, entry);
      if (entry.kind !== 'interface' && entry.kind !== 'type') this.#values.add(entry.name);
    }
    const topics = new Map(drafts.map(({ topic }) => [topic.slug, topic]));
    const pages: Page[] = [];
    for (const [slug, topic] of topics) {
      const own = drafts
        .filter((draft) => draft.topic.slug === slug)
        .toSorted(byTitle(topic.title));
      const anchors = anchorsOf(own.map(({ title }) => title));
      const items = own.map((draft, index): Item => ({ ...draft, anchor: anchors[index] ?? '' }));
      for (const { entry, anchor, isForAuthors: late } of items) {
        // A name that several packages use is the one of users.
        if (!late || !this.#homes.has(entry.name)) this.#homes.set(entry.name, `${slug}#${anchor}`);
      }
      pages.push({ topic, section: sectionOf(topic), items, members: [] });
    }
    this.pages = this.#withMoved(pages).toSorted((a, b) => orderOf(a.topic) - orderOf(b.topic));
  }

  /** The page and the anchor of a name, such as `nn/linear#nn-linear`. Undefined for names that nothing exports. */
  homeOf(name: string): string | undefined {
    return this.#homes.get(name);
  }

  /** The exported classes that a class extends and that no other of them extends. */
  parentsOf({ entry }: Item): readonly string[] {
    const bases = [...new Set(entry.members.map(({ declaredBy }) => declaredBy))].flatMap((name) =>
      name === entry.name ? [] : (this.#classes.get(name) ?? []),
    );
    return bases
      .filter(
        ({ name }) =>
          !bases.some(
            (other) =>
              other.name !== name && other.members.some(({ declaredBy }) => declaredBy === name),
          ),
      )
      .map(({ name }) => name);
  }

  /** The page and the anchor of each name that is only a type, or of each other one. */
  namesOf(kind: 'types' | 'values'): ReadonlyMap<string, string> {
    return new Map(
      [...this.#homes].filter(([name]) => this.#values.has(name) === (kind === 'values')),
    );
  }

  /** The members of a class that it does not have from another exported class. */
  ownMembers({ entry }: Item): Member[] {
    const bases = [...new Set(entry.members.map(({ declaredBy }) => declaredBy))].flatMap((name) =>
      name === entry.name ? [] : (this.#classes.get(name) ?? []),
    );
    return entry.members.filter(
      (member) => !bases.some((base) => base.members.some((each) => isSame(each, member))),
    );
  }

  /** Gives the pages below the page of a class the methods that their topics are about. */
  #withMoved(pages: readonly Page[]): Page[] {
    const moved = pages.flatMap(({ topic: { slug }, items }) =>
      items.flatMap((owner) =>
        this.ownMembers(owner).flatMap((member) => {
          const topic = topicOf(member.source.path, `${owner.entry.name}.${member.name}`, []);
          return topic.slug.startsWith(`${slug}/`) ? { owner, member, topic } : [];
        }),
      ),
    );
    const targets = new Map(moved.map(({ topic }) => [topic.slug, topic]));
    const missing = [...targets.values()].filter(
      ({ slug }) => !pages.some(({ topic }) => topic.slug === slug),
    );
    return [
      ...pages,
      ...missing.map((topic) => ({ topic, section: sectionOf(topic), items: [], members: [] })),
    ].map((page) => ({
      ...page,
      members: moved.filter(({ topic }) => topic.slug === page.topic.slug),
    }));
  }
}

function orderOf({ slug }: Topic): number {
  const index = slugsInOrder.indexOf(slug);
  return index === -1 ? slugsInOrder.length : index;
}

function sectionOf(topic: Topic): string {
  const section = sections.find(({ topics }) => topics.includes(topic));
  if (section !== undefined) return section.title;
  const parent = sections.find(({ topics }) =>
    topics.some(({ slug }) => topic.slug.startsWith(`${slug.split('/')[0]}/`)),
  );
  return parent?.title ?? 'More';
}
