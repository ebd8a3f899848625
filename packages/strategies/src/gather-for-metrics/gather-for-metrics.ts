import {
  checkOptions,
  CollectiveError,
  CollectiveMismatchError,
  ConfigError,
  currentSession,
  DistributedSampler,
  fromBytes,
  fromData,
  option,
  type OptionRule,
  type OptionRules,
  type ProcessGroup,
  type Tensor,
} from '@shardwise/core/extend';
import { gatherTexts } from './gather-texts.ts';
import { type OwnRows, readOwnRows } from './own-rows.ts';
import { formatRowType, parseRowType, rowBytesOf, type RowType } from './row-type.ts';

/** Options of `gatherForMetrics`. */
export interface GatherForMetricsOptions {
  /** The sampler that this rank's batches came from. It knows the items of all ranks, and which rows are repeats. */
  readonly sampler: DistributedSampler;
  /**
   * The mesh axis whose ranks divide the items. For several, it is the name that `flatten` of the mesh has given them
   * together. Default: `dp`.
   */
  readonly axis?: string;
}

const gatherRules: OptionRules<GatherForMetricsOptions> = {
  sampler: option.required(option.instanceOf(DistributedSampler)),
  axis: option.axisName,
};

const namedLists: OptionRule<Readonly<Record<string, unknown>>> = {
  fits: (value): value is Readonly<Record<string, unknown>> =>
    option.object().fits(value) && !Array.isArray(value) && Object.keys(value).length > 0,
  expected: 'an object with a list of tensors under each name, as { predictions }',
};
const valueRules = { values: option.required(namedLists) };

/**
 * Gives the values of all items to every rank, in the order of the dataset, whatever the order of the sampler
 * (`gather_for_metrics` of accelerate). Rows of items that the sampler has repeated are left out, so that metrics count
 * each item once. Call it once after the batches of an epoch, on all ranks of the axis; a rank without a batch gives
 * empty lists:
 *
 *     const { predictions, labels } = await gatherForMetrics(
 *       { predictions: [...], labels: [...] }, // a tensor for each batch
 *       { sampler },
 *     );
 *
 * Shape: each list of [rows, ..] -> [items of the dataset, ..]. Each rank keeps all values. Values that have not been
 * computed are computed one batch after the other. If a rank's values do not fit its sampler, it throws ConfigError or
 * ShapeError, and the others throw CollectiveError. If ranks have different samplers, epochs or values, all throw
 * CollectiveMismatchError. It is a collective.
 */
export async function gatherForMetrics<Name extends string>(
  values: Readonly<Record<Name, readonly Tensor[]>>,
  options: GatherForMetricsOptions,
): Promise<Record<Name, Tensor>>;
export async function gatherForMetrics(
  values: Readonly<Record<string, readonly Tensor[]>>,
  options: GatherForMetricsOptions,
): Promise<Record<string, Tensor>> {
  checkOptions('gatherForMetrics', options, gatherRules);
  const { sampler, axis = 'dp' } = options;
  const session = currentSession();
  const group = session.mesh.group(axis);
  // Taken before the first wait, after which the next epoch may begin.
  const { epoch, items, numReplicas: ranks } = sampler;
  const order: ItemOrder = { items, ranks, itemAt: sampler.order() };
  const own = await ownOf(values, sampler, group, axis);
  const texts = await gatherTexts(group, textOf(sampler, epoch, own));
  if (own.error !== undefined) throw own.error;
  const types = typesOf(texts, axis);
  const gathered: (readonly [string, Tensor])[] = [];
  for (const [index, [name, { bytes }]] of own.rows.entries()) {
    gathered.push([name, await gatherRows(group, bytes, types[index] ?? noRows, order)]);
  }
  return Object.fromEntries(gathered);
}

/** The order in which ranks divide items. */
interface ItemOrder {
  readonly items: number;
  readonly ranks: number;
  readonly itemAt: (position: number) => number;
}

/** The type of rows that no rank has. */
const noRows: RowType = { dtype: 'f32', shape: [] };

type NamedRows = readonly (readonly [string, OwnRows])[];

/** This rank's rows. An error is kept, so that the other ranks can learn of it before it is thrown. */
async function ownOf(
  values: Readonly<Record<string, unknown>>,
  sampler: DistributedSampler,
  { rank, size }: ProcessGroup,
  axis: string,
): Promise<{ readonly rows: NamedRows; readonly error?: unknown }> {
  const rows: (readonly [string, OwnRows])[] = [];
  try {
    checkOptions('gatherForMetrics', { values }, valueRules);
    if (sampler.rank !== rank || sampler.numReplicas !== size) {
      throw otherPlace(sampler, `rank ${rank} of ${size} of the axis '${axis}'`);
    }
    if (!sampler.isUneven && sampler.length * size < sampler.items) throw leftOut(sampler);
    for (const name of Object.keys(values).toSorted()) {
      rows.push([name, await readOwnRows(name, values[name], sampler.length)]);
    }
    await currentSession().realize([]);
    return { rows };
  } catch (error) {
    return { rows, error };
  }
}

/** What a rank sends the others: its error, what must be the same on all ranks, and the type of rows under each name. */
function textOf(
  { settings }: DistributedSampler,
  epoch: number,
  { rows, error }: { readonly rows: NamedRows; readonly error?: unknown },
): string {
  if (error !== undefined) return JSON.stringify(error instanceof Error ? error.message : error);
  const names = rows.map(([name]) => name);
  const types = rows.map(([, { type }]) => (type === null ? '' : formatRowType(type)));
  return ['', JSON.stringify({ names, epoch, sampler: settings }), ...types].join('\n');
}

/**
 * Returns the type of rows under each name. Throws CollectiveError if a rank has sent an error, and
 * CollectiveMismatchError if ranks differ.
 */
function typesOf(texts: readonly string[], axis: string): readonly (RowType | undefined)[] {
  const ranks = texts.map((text) => text.split('\n'));
  const asked = `to gather values for metrics over '${axis}'`;
  const failed = ranks.findIndex(([error]) => error !== '');
  if (failed >= 0) {
    throw new CollectiveError(
      {
        asked,
        found: `rank ${failed} could not give its values: ${ranks[failed]?.[0]}`,
        todo: 'See the error of that rank',
      },
      { rank: failed },
    );
  }
  const [first = []] = ranks;
  const types = first.slice(2).map((_, index) => {
    const texts = ranks.map((lines) => lines[index + 2] ?? '');
    return { texts, known: texts.find((text) => text !== '') };
  });
  const other = ranks.findIndex(
    (lines, rank) =>
      lines[1] !== first[1] ||
      types.some(({ texts, known }) => texts[rank] !== '' && texts[rank] !== known),
  );
  if (other >= 0) {
    const describe = (lines: readonly string[] = []): string => lines.slice(1).join(', ');
    throw new CollectiveMismatchError(
      {
        asked,
        found: `rank ${other} has ${describe(ranks[other])}, and rank 0 has ${describe(first)}`,
        todo: 'Gather equally often on all ranks, with the same names and types, and samplers of the same settings and epoch',
      },
      { rank: other },
    );
  }
  return types.map(({ known }) => (known === undefined ? undefined : parseRowType(known)));
}

/** The rows of all items, in the order of the dataset. Shape: bytes of [rows, ..] -> [items, ..]. */
async function gatherRows(
  group: ProcessGroup,
  bytes: Uint8Array,
  type: RowType,
  { items, ranks, itemAt }: ItemOrder,
): Promise<Tensor> {
  const { dtype, shape } = type;
  const rowBytes = rowBytesOf(type);
  const most = Math.ceil(items / ranks) * rowBytes;
  const own = new Uint8Array(most);
  own.set(bytes);
  const all = new Uint8Array(most * ranks);
  if (most > 0) await group.allGather({ bytes: own, dtype }, { bytes: all, dtype });
  const rows = new Uint8Array(items * rowBytes);
  // Positions from `items` on are repeats.
  for (let position = 0; position < items; position++) {
    const start = (position % ranks) * most + Math.floor(position / ranks) * rowBytes;
    rows.set(all.subarray(start, start + rowBytes), itemAt(position) * rowBytes);
  }
  return fromData(fromBytes(rows, dtype), [items, ...shape], dtype);
}

function otherPlace({ rank, numReplicas }: DistributedSampler, found: string): ConfigError {
  return new ConfigError({
    asked: `to gather values for metrics by the sampler of rank ${rank} of ${numReplicas}`,
    found,
    todo: 'Make the sampler with the rank and the size of the axis, as mesh.group(axis) has them',
  });
}

function leftOut({ items, length, numReplicas }: DistributedSampler): ConfigError {
  return new ConfigError({
    asked: `to gather values of ${items} items for metrics`,
    found: `a sampler with dropLast, whose ${numReplicas} ranks have ${length} items each`,
    todo: 'Leave out dropLast: rows of items that the sampler repeats are left out here',
  });
}
