import { dtypes } from '@shardwise/core/spec';
import { operations, type CallRecord, type Operation } from '../../call/record.ts';
import type { AlgorithmSetting } from './algorithm-setting.ts';
import type { AlgorithmTable } from './algorithm-table.ts';
import type { Algorithm } from './algorithm.ts';
import { algorithms } from './algorithms.ts';

interface Candidate {
  readonly upToBytes: number;
  readonly algorithm: Algorithm;
}

/**
 * Chooses the algorithm of a group for each call. The setting decides if it names one. Otherwise the table decides, if
 * its algorithm adds in rank order or the order does not matter. Otherwise it is the first algorithm of the operation.
 * Algorithms that the group's hosts do not allow are skipped. The choice depends only on facts that all ranks know, so
 * that all make the same one.
 */
export class AlgorithmChoice {
  readonly #hosts: readonly (readonly number[])[];
  readonly #isNative: boolean;
  readonly #setting: AlgorithmSetting;
  readonly #table: AlgorithmTable;
  readonly #candidates: ReadonlyMap<Operation, readonly Candidate[]>;

  /** `isNative` says whether the group has native collectives. */
  constructor(
    hosts: readonly (readonly number[])[],
    setting: AlgorithmSetting,
    table: AlgorithmTable,
    isNative = false,
  ) {
    this.#hosts = hosts;
    this.#isNative = isNative;
    this.#setting = setting;
    this.#table = table;
    this.#candidates = new Map(
      operations.map((operation) => [operation, this.#candidatesFor(operation)]),
    );
  }

  /** The choice for a group that was split from this one, with the hosts of that group. */
  for(hosts: readonly (readonly number[])[]): AlgorithmChoice {
    return new AlgorithmChoice(hosts, this.#setting, this.#table, this.#isNative);
  }

  algorithmFor(record: CallRecord): Algorithm {
    const { operation, dtype, elements } = record;
    // Ranks may send different numbers of elements in an allToAll, so the choice must not depend on them.
    const bytes =
      dtype === undefined || operation === 'allToAll' ? 0 : elements * dtypes[dtype].bytes;
    const keepsOrder = orderMatters(record);
    for (const { upToBytes, algorithm } of this.#candidates.get(operation) ?? []) {
      if (bytes <= upToBytes && (algorithm.rankOrder || !keepsOrder)) return algorithm;
    }
    return algorithms[operation][0];
  }

  #candidatesFor(operation: Operation): readonly Candidate[] {
    const known = algorithms[operation];
    const set = this.#setting.get(operation);
    if (set?.supports(this.#hosts, this.#isNative) === true) {
      return [{ upToBytes: Infinity, algorithm: { ...set, rankOrder: true } }];
    }
    const hosts = this.#hosts.length > 1 ? 'several' : 'one';
    const rules = this.#table.rules.filter(
      (rule) => rule.operation === operation && rule.hosts === hosts,
    );
    const counts = rules.map(({ ranks }) => ranks);
    const size = this.#hosts.flat().length;
    const reached = counts.filter((ranks) => ranks <= size);
    const ranks = reached.length > 0 ? Math.max(...reached) : Math.min(...counts);
    return rules
      .filter((rule) => rule.ranks === ranks)
      .flatMap(({ upToBytes, algorithm: name }) => {
        const algorithm = known.find((candidate) => candidate.name === name);
        return algorithm?.supports(this.#hosts, this.#isNative) === true
          ? [{ upToBytes: upToBytes ?? Infinity, algorithm }]
          : [];
      });
  }
}

/** Whether the result depends on the order in which the ranks' values are added. */
function orderMatters({ dtype, reduce }: CallRecord): boolean {
  if (dtype === undefined || dtypes[dtype].kind !== 'float') return false;
  return reduce !== undefined && reduce !== 'min' && reduce !== 'max';
}
