import type { Section } from './topic.ts';
import { topicsOfRanks } from './topics-of-ranks.ts';
import { topicsOfTraining } from './topics-of-training.ts';

/**
 * What a reader looks for, in the order of the index. The first topic whose `from` fits a source gets its exports. Where
 * none fits, pages follow the groups of the entry points and the folders of the packages.
 */
export const sections: readonly Section[] = [...topicsOfTraining, ...topicsOfRanks];
