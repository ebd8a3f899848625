import type { AlgorithmRule, AlgorithmTable } from '../selection/algorithm-table.ts';
import type { AlgorithmMeasurement } from './measure-algorithms.ts';

/** An algorithm takes over if its time is below this share of the other's. Smaller differences are noise. */
const MARGIN = 0.95;

/** A table whose rules choose the fastest algorithm at each measured size. */
export function algorithmTableOf(
  measurements: readonly AlgorithmMeasurement[],
  about: { readonly madeBy: string; readonly machine: string },
): AlgorithmTable {
  const places = Map.groupBy(measurements, ({ operation, hosts, ranks }) =>
    [operation, hosts, ranks].join(),
  );
  return { ...about, rules: [...places.values()].flatMap(rulesOf) };
}

function rulesOf(measured: readonly AlgorithmMeasurement[]): readonly AlgorithmRule[] {
  const ordered = brackets(measured.filter(({ rankOrder }) => rankOrder));
  // If the order does not matter, algorithms that do not add in rank order compete as well.
  const others = brackets(measured).filter((rule) =>
    measured.some(({ algorithm, rankOrder }) => algorithm === rule.algorithm && !rankOrder),
  );
  const limit = ({ upToBytes }: AlgorithmRule): number => upToBytes ?? Infinity;
  return [...others, ...ordered].sort((a, b) => {
    const [first, second] = [limit(a), limit(b)];
    return first === second ? 0 : first - second;
  });
}

function brackets(measured: readonly AlgorithmMeasurement[]): readonly AlgorithmRule[] {
  const bySize = Map.groupBy(measured, ({ bytes }) => bytes);
  const sizes = [...bySize.keys()].sort((a, b) => a - b);
  const winners: AlgorithmMeasurement[] = [];
  for (const size of sizes) {
    const here = bySize.get(size) ?? [];
    const fastest = here.reduce((a, b) => (b.microseconds < a.microseconds ? b : a));
    const before = winners.at(-1)?.algorithm;
    const incumbent = here.find(({ algorithm }) => algorithm === before) ?? fastest;
    winners.push(fastest.microseconds < MARGIN * incumbent.microseconds ? fastest : incumbent);
  }
  return winners.flatMap(({ operation, hosts, ranks, bytes, algorithm }, index) => {
    const next = winners[index + 1];
    if (next?.algorithm === algorithm) return [];
    // The limit is the geometric mean of this size and the next one, at which another algorithm was faster.
    const upToBytes = next === undefined ? null : Math.round(Math.sqrt(bytes * next.bytes));
    return [{ operation, hosts, ranks, upToBytes, algorithm }];
  });
}
