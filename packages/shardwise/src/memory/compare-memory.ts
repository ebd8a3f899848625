import { formatBytes } from '../text/format.ts';
import {
  memoryCategories,
  type MemoryBlock,
  type MemoryCategory,
  type MemoryProfile,
} from './memory-profile.ts';
import type { PlannedMemory } from './planned-memory.ts';

/** Bytes at the peak of a plan, and at the peak that was measured. */
interface ComparedBytes {
  readonly plannedBytes: number;
  readonly measuredBytes: number;
}

/** States of a module, or its values of one shape, at the two peaks. */
export interface ComparedBlock extends ComparedBytes {
  readonly category: MemoryCategory;
  readonly module: string;
  /** The shape and dtype of the values. Empty for states. */
  readonly values: string;
}

/** The memory of a rank beside that of its plan. It is data. */
export interface MemoryComparison extends ComparedBytes {
  readonly categories: readonly (ComparedBytes & { readonly category: MemoryCategory })[];
  /** What differs, the largest difference first. */
  readonly differences: readonly ComparedBlock[];
  /** The largest difference in words, with its probable cause. */
  readonly words: string;
}

/** What blocks are compared by. */
type Named = Pick<MemoryBlock, 'category' | 'module' | 'operation' | 'bytes'>;

const states: ReadonlySet<MemoryCategory> = new Set([
  'parameters',
  'gradients',
  'optimizer states',
]);

/** Puts the timeline of a rank beside what was planned for it, block by block. */
export function compareMemory(planned: PlannedMemory, measured: MemoryProfile): MemoryComparison {
  const [plan, found] = [groupsOf(planned.peak.blocks), groupsOf(measured.peak.blocks)];
  const keys = [...new Set([...plan.keys(), ...found.keys()])];
  const compared = keys.map((key): ComparedBlock => {
    const [category, module = '', values = ''] = key.split('\n');
    return {
      category: memoryCategories.find((each) => each === category) ?? 'reserved',
      module,
      values,
      plannedBytes: plan.get(key) ?? 0,
      measuredBytes: found.get(key) ?? 0,
    };
  });
  const sumOf = (of: keyof ComparedBytes, category?: MemoryCategory): number =>
    compared
      .filter((each) => category === undefined || each.category === category)
      .reduce((sum, each) => sum + each[of], 0);
  const differences = compared
    .filter(({ plannedBytes, measuredBytes }) => plannedBytes !== measuredBytes)
    .toSorted((a, b) => Math.abs(difference(b)) - Math.abs(difference(a)));
  return {
    plannedBytes: sumOf('plannedBytes'),
    measuredBytes: sumOf('measuredBytes'),
    categories: memoryCategories.map((category) => ({
      category,
      plannedBytes: sumOf('plannedBytes', category),
      measuredBytes: sumOf('measuredBytes', category),
    })),
    differences,
    words: wordsOf(differences[0], planned, measured),
  };
}

/** The bytes of blocks by what they are compared by. The shapes of values say more than their operations, which devices replace. */
function groupsOf(blocks: readonly Named[]): ReadonlyMap<string, number> {
  const groups = new Map<string, number>();
  for (const block of blocks) {
    const key = keyOf(block);
    groups.set(key, (groups.get(key) ?? 0) + block.bytes);
  }
  return groups;
}

function keyOf({ category, module, operation }: Named): string {
  const values = states.has(category) ? '' : (/\[[^\]]*\] \w+/.exec(operation)?.[0] ?? '');
  return [category, module, values].join('\n');
}

function difference({ plannedBytes, measuredBytes }: ComparedBytes): number {
  return measuredBytes - plannedBytes;
}

const nouns: Readonly<Record<MemoryCategory, string>> = {
  parameters: 'parameters',
  gradients: 'gradients',
  'optimizer states': 'optimizer states',
  activations: 'activations',
  temporary: 'temporary values',
  'inputs and buffers': 'inputs and buffers',
  reserved: 'reserved memory',
};

function wordsOf(
  largest: ComparedBlock | undefined,
  planned: PlannedMemory,
  measured: MemoryProfile,
): string {
  if (largest === undefined) return 'What lies in memory at the peak is what was planned.';
  const { category, module, values } = largest;
  const bytes = formatBytes(Math.abs(difference(largest)));
  if (category === 'reserved') {
    return `${bytes} were taken as one piece, and nothing lies in them at the peak.`;
  }
  const of = module === '' ? 'outside of modules' : `of \`${module}\``;
  const what = [`The ${nouns[category]}`, of, values].filter((word) => word !== '').join(' ');
  const isIn = (blocks: readonly Named[]): boolean => blocks.some((each) => isOf(each, largest));
  if (difference(largest) > 0) {
    return isIn(planned.blocks)
      ? `${what} take ${bytes} more than planned at the peak: the plan frees them after their last read, and a program keeps what it reads until it ends.`
      : `${what} take ${bytes} that are not in the plan: the device makes them besides the operations of the model.`;
  }
  return isIn(measured.blocks)
    ? `${what} take ${bytes} less than planned at the peak: the memory is fullest at another time, when some of them are not there.`
    : `${what} take ${bytes} less than planned: they never lie in memory, because the device computes them together with what reads them.`;
}

function isOf(block: Named, { category, module, values }: ComparedBlock): boolean {
  return keyOf(block) === [category, module, values].join('\n');
}
