import {
  checkOptions,
  CollectiveError,
  ConfigError,
  currentSession,
  DistributedSampler,
  option,
  type OptionRules,
  type ProcessGroup,
} from '@shardwise/core/extend';

/** Options of every metric. */
export interface MetricOptions {
  /**
   * The sampler that this rank's batches come from. It knows which rows are repeats, which are not counted. Without one,
   * every row counts, as is right for streams.
   */
  readonly sampler?: DistributedSampler;
  /** The mesh axis whose ranks have different rows. Default: `dp`. */
  readonly axis?: string;
}

export const metricRules: OptionRules<MetricOptions> = {
  sampler: option.instanceOf(DistributedSampler),
  axis: option.axisName,
};

/**
 * Counts rows on each rank, and computes one value of the rows of all ranks. Each item counts once, also if the sampler
 * repeats it, so the value is that of one rank.
 */
export abstract class Metric<Value = number> {
  readonly #sampler: DistributedSampler | undefined;
  readonly #axis: string;
  #rows = 0;

  constructor({ sampler, axis = 'dp' }: MetricOptions) {
    checkOptions(
      new.target.name,
      { ...(sampler === undefined ? {} : { sampler }), axis },
      metricRules,
    );
    if (
      sampler !== undefined &&
      !sampler.isUneven &&
      sampler.length * sampler.numReplicas < sampler.items
    ) {
      throw leftOut(sampler);
    }
    this.#sampler = sampler;
    this.#axis = axis;
  }

  /** Begins anew, as for the next epoch. */
  reset(): void {
    this.#rows = 0;
    this.clear();
  }

  /** The value of the rows of all ranks since the last `reset`. It is a collective: all ranks of the axis call it. */
  abstract compute(): Promise<Value>;

  /** Forgets what was counted. */
  protected abstract clear(): void;

  /** Takes note of the next rows, and returns how many of them count. Repeats come last. */
  protected countRows(rows: number): number {
    const before = this.#rows;
    const sampler = this.#sampler;
    this.#rows += rows;
    if (sampler === undefined) return rows;
    const { items, rank, numReplicas, length } = sampler;
    if (this.#rows > length) throw tooMany(this.#rows, length);
    const own = Math.max(0, Math.ceil((items - rank) / numReplicas));
    return Math.max(0, Math.min(rows, own - before));
  }

  /**
   * The sums of the ranks' numbers, added in rank order, so that all ranks have the same bits. Throws on all ranks if one
   * of them has not had all rows of its sampler. Shape: [n] on each rank -> [n].
   */
  protected async sum(numbers: readonly number[]): Promise<readonly number[]> {
    const group = currentSession().mesh.group(this.#axis);
    const length = numbers.length + 1;
    const own = Float64Array.of(this.#isComplete(group) ? 0 : 1, ...numbers);
    const all = await gather(group, own);
    this.#requireComplete(group, (rank) => all[rank * length] === 0);
    return numbers.map((_, i) => {
      let total = 0;
      for (let rank = 0; rank < group.size; rank++) total += all[rank * length + i + 1] ?? 0;
      return total;
    });
  }

  /** The ranks' lists, one after the other. Shape: [n of the rank] -> [sum of n]. */
  protected async concat(numbers: readonly number[]): Promise<readonly number[]> {
    const group = currentSession().mesh.group(this.#axis);
    const heads = await gather(
      group,
      Float64Array.of(this.#isComplete(group) ? 0 : 1, numbers.length),
    );
    this.#requireComplete(group, (rank) => heads[2 * rank] === 0);
    const lengths = Array.from({ length: group.size }, (_, rank) => heads[2 * rank + 1] ?? 0);
    const longest = Math.max(...lengths);
    if (longest === 0) return [];
    const own = new Float64Array(longest);
    own.set(numbers);
    const all = await gather(group, own);
    return lengths.flatMap((length, rank) => [
      ...all.subarray(rank * longest, rank * longest + length),
    ]);
  }

  #isComplete({ rank, size }: ProcessGroup): boolean {
    const sampler = this.#sampler;
    if (sampler === undefined) return true;
    const isOfRank = sampler.rank === rank && sampler.numReplicas === size;
    return isOfRank && this.#rows === sampler.length;
  }

  #requireComplete(group: ProcessGroup, isComplete: (rank: number) => boolean): void {
    const sampler = this.#sampler;
    if (sampler !== undefined && !this.#isComplete(group))
      throw incomplete(sampler, this.#rows, group);
    for (let rank = 0; rank < group.size; rank++) {
      if (!isComplete(rank)) throw otherIncomplete(rank, this.#axis);
    }
  }
}

async function gather(group: ProcessGroup, own: Float64Array<ArrayBuffer>): Promise<Float64Array> {
  const all = new Float64Array(own.length * group.size);
  await group.allGather(
    { bytes: new Uint8Array(own.buffer), dtype: 'f64' },
    { bytes: new Uint8Array(all.buffer), dtype: 'f64' },
  );
  return all;
}

function leftOut({ items, length, numReplicas }: DistributedSampler): ConfigError {
  return new ConfigError({
    asked: `a metric of ${items} items`,
    found: `a sampler with dropLast, whose ${numReplicas} ranks have ${length} items each`,
    todo: 'Leave out dropLast: items that the sampler repeats are counted once here',
  });
}

function tooMany(rows: number, length: number): ConfigError {
  return new ConfigError(
    {
      asked: `to count ${rows} rows in a metric`,
      found: `a sampler that has ${length} for this rank`,
      todo: 'Call reset() before the next epoch, and update() once for each batch',
    },
    { rows, length },
  );
}

function incomplete(sampler: DistributedSampler, rows: number, group: ProcessGroup): ConfigError {
  const { rank, numReplicas, length } = sampler;
  return new ConfigError(
    {
      asked: `a metric of the ${length} rows that the sampler of rank ${rank} of ${numReplicas} has`,
      found: `${rows} rows, on rank ${group.rank} of ${group.size}`,
      todo: 'Call update() for every batch before compute(), and make the sampler with the rank and size of the axis',
    },
    { rows, length },
  );
}

function otherIncomplete(rank: number, axis: string): CollectiveError {
  return new CollectiveError(
    {
      asked: `a metric over '${axis}'`,
      found: `rank ${rank} has not had all rows of its sampler`,
      todo: 'See the error of that rank',
    },
    { rank },
  );
}
