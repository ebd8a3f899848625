import { round } from '../summary.ts';
import { limitOf } from './contestants.ts';
import { operations } from './job.ts';
import type { CaseTimes, Times } from './measure.ts';
import { formatBytes, formatSeconds } from './format.ts';
import type { TransportName } from './options.ts';
import type { Target } from './targets.ts';

type Row = readonly [label: string, value: string];

export function rowsOf(
  cases: readonly CaseTimes[],
  transports: readonly TransportName[],
  targets: readonly Target[],
  absent: Readonly<Record<string, string>>,
): readonly Row[] {
  return [
    ...cases.flatMap((one) => transports.flatMap((transport) => rowOf(one, transport))),
    ...targets.map(({ what, asked, measured, ofBest, isMet }): Row => [
      `${isMet ? 'met    ' : 'NOT MET'} ${what}`,
      `asked ${asked}; median ${measured}, best ${ofBest}`,
    ]),
    ...Object.entries(absent).map(([name, reason]): Row => [`without ${name}`, reason]),
  ];
}

function rowOf(one: CaseTimes, transport: TransportName): readonly Row[] {
  const { operation, bytes, world, times } = one;
  const ours = times.get(transport);
  if (ours === undefined) return [];
  const { algorithmGBs, busGBs } = bandwidths(one, ours.median);
  const against = (name: string, label: string): string[] => {
    const theirs = times.get(name);
    return theirs === undefined ? [] : [`${label} ${formatSeconds(theirs.median)}`];
  };
  const parts = [
    `${formatSeconds(ours.median)} (best ${formatSeconds(ours.best)})`,
    ...(bytes === 0 ? [] : [`${algorithmGBs} GB/s, bus ${busGBs} GB/s`]),
    ...against(limitOf[transport], 'limit'),
    ...against('gloo', 'gloo'),
    ...against('openMpi', 'Open MPI'),
  ];
  const size = bytes === 0 ? '' : formatBytes(bytes);
  return [[`${operation} ${size}`.padEnd(22) + `${world} ${transport}`, parts.join(', ')]];
}

/** Returns records with times in microseconds. The times of peers and limits come from the same rounds. */
export function recordsOf(
  cases: readonly CaseTimes[],
  transports: readonly TransportName[],
): readonly Readonly<Record<string, unknown>>[] {
  return cases.flatMap((one) =>
    transports.flatMap((transport) => {
      const ours = one.times.get(transport);
      if (ours === undefined) return [];
      const beside = (name: string): unknown => {
        const times = one.times.get(name);
        if (times === undefined) return null;
        const ratio = round(times.median / ours.median, 3);
        return { ...inMicroseconds(times), ...bandwidths(one, times.median), ratio };
      };
      const { operation, bytes, world } = one;
      return {
        transport,
        operation,
        bytes,
        world,
        ...inMicroseconds(ours),
        ...bandwidths(one, ours.median),
        roundsUs: ours.rounds.map((seconds) => round(seconds * 1e6, 3)),
        iterations: ours.iterations,
        limit: beside(limitOf[transport]),
        gloo: beside('gloo'),
        openMpi: beside('openMpi'),
      };
    }),
  );
}

function inMicroseconds({ median, best }: Times): { medianUs: number; bestUs: number } {
  return { medianUs: round(median * 1e6, 3), bestUs: round(best * 1e6, 3) };
}

/** Returns bandwidths in 10^9 bytes per second, as nccl-tests does. */
function bandwidths(
  { operation, bytes, world }: CaseTimes,
  seconds: number,
): { algorithmGBs: number; busGBs: number } {
  const algorithm = bytes / seconds / 1e9;
  return {
    algorithmGBs: round(algorithm, 3),
    busGBs: round(algorithm * operations[operation].busFactor(world), 3),
  };
}
