import type { Bench } from '../bench.ts';
import { startContestants } from './contestants.ts';
import type { OperationName } from './job.ts';
import { measure, type CaseTimes } from './measure.ts';
import { collectivesFlags, parseOptions, type CollectivesOptions } from './options.ts';
import { recordsOf, rowsOf } from './report.ts';
import { targetsOf } from './targets.ts';
import { tune } from './tune.ts';

/**
 * Measures every transport, operation, size and number of ranks, against gloo, Open MPI in C, and limits of the
 * machine.
 */
export const collectives: Bench = {
  about:
    'time and bandwidth of every collective on every transport, against gloo and Open MPI in C',
  flags: collectivesFlags,
  run: async (values) => {
    const options = parseOptions(values);
    const path = values['tune'];
    if (typeof path === 'string' && path !== '') return tune(path, options);
    const cases: CaseTimes[] = [];
    const absent: Record<string, string> = {};
    const versions: Record<string, string> = {};
    for (const world of options.worlds) {
      const contestants = await startContestants(options, world);
      Object.assign(absent, contestants.absent);
      try {
        for (const { name, version } of contestants.all) {
          if (version !== undefined) versions[name] = version;
        }
        for (const [operation, bytes] of casesOf(options)) {
          const times = await measure(contestants.all, { operation, bytes }, options.rounds);
          cases.push({ operation, bytes, world, times });
        }
      } finally {
        for (const contestant of contestants.all) await contestant.close();
      }
    }
    const targets = targetsOf(cases);
    return {
      rows: rowsOf(cases, options.transports, targets, absent),
      record: {
        results: recordsOf(cases, options.transports),
        targets,
        peers: versions,
        absent,
        rounds: options.rounds,
      },
    };
  },
};

function casesOf(options: CollectivesOptions): readonly (readonly [OperationName, number])[] {
  return options.operations.flatMap((operation) =>
    (operation === 'barrier' ? [0] : options.sizes).map((bytes) => [operation, bytes] as const),
  );
}
