import type { Section } from './topic.ts';
import { topicsOfAuthors } from './topics-of-authors.ts';
import { topicsOfRanks } from './topics-of-ranks.ts';
import { topicsOfTraining } from './topics-of-training.ts';

/**
 * What a reader looks for, in the order of the index. The first topic whose `from` fits a source gets its exports. Where
 * none fits, pages follow the groups of the entry points and the folders of the packages.
 */
export const sections: readonly Section[] = [
  ...topicsOfTraining,
  ...topicsOfRanks,
  ...topicsOfAuthors,
];

const slugs = sections.flatMap(({ topics }) => topics.map(({ slug }) => slug));
const isBelow = (slug: string, other: string): boolean => slug.startsWith(`${other}/`);

/**
 * The slugs in the order in which the index and the sidebar list them. A topic comes before the topics below it, which
 * stand before it in `sections` because they are the ones that get an export first.
 */
export const slugsInOrder: readonly string[] = inOrder(slugs);

function inOrder(among: readonly string[]): readonly string[] {
  return among
    .filter((slug) => !among.some((other) => isBelow(slug, other)))
    .flatMap((slug) => [slug, ...inOrder(among.filter((other) => isBelow(other, slug)))]);
}
