import { dist } from 'shardwise';
import type { Bench, BenchResult } from '../bench.ts';
import { startRanks } from '../ranks.ts';
import type { RankRound } from '../rank-messages.ts';
import { countOf, roundsFlag, roundsOf } from '../rounds.ts';
import { mean, pairedRatio, round } from '../summary.ts';
import { wall } from '../wall.ts';
import type { ContextSettings } from './settings.ts';

const ROUNDS = 3;
const usual = { ranks: 2, length: 4096, layers: 2, width: 128, heads: 4, vocabulary: 512 };
const contestants = ['ddp', 'ring', 'allGather', 'ulysses'] as const;

/** Compares ranks that have parts of one sequence with ranks that have a sequence each. */
export const contextParallel: Bench = {
  about:
    'a GPT-2 on one long sequence that ranks share, relative to DDP with a sequence for each rank',
  flags: {
    ...roundsFlag,
    only: { type: 'string' },
    ranks: { type: 'string' },
    length: { type: 'string' },
    layers: { type: 'string' },
    width: { type: 'string' },
    heads: { type: 'string' },
    vocabulary: { type: 'string' },
  },
  run: async (values): Promise<BenchResult> => {
    const sizeOf = (name: keyof typeof usual): number => countOf(values, name, usual[name]);
    const [ranks, length, layers] = [sizeOf('ranks'), sizeOf('length'), sizeOf('layers')];
    const common = { length, layers, width: sizeOf('width'), heads: sizeOf('heads') };
    const rounds = roundsOf(values, ROUNDS);
    const chosen = contestants.filter((each) => (values['only'] ?? each) === each);
    const worlds = chosen.map((contestant) => {
      const settings = { ...common, vocabulary: sizeOf('vocabulary'), contestant };
      return { contestant, ranks: started(ranks, settings), found: new Array<RankRound[]>() };
    });
    // The largest memory of the process, as all ranks are its threads.
    let residentBytes = 0;
    try {
      for (let index = 0; index <= rounds; index++) {
        for (const world of worlds) {
          world.found.push(await world.ranks.round({ mode: 'together', steps: 1 }));
          residentBytes = Math.max(residentBytes, process.memoryUsage.rss());
        }
      }
    } finally {
      for (const world of worlds) await world.ranks.close();
    }
    const times = worlds.map(({ contestant, found }) => ({ contestant, found, wall: wall(found) }));
    const whole = times.find(({ contestant }) => contestant === 'ddp');
    const cut = new dist.SequenceCut(length, { ranks, neighbours: 1, order: 'headTail' });
    const pairs = cut.causalPairs();
    const measured = times.map(({ contestant, found, wall: own }) => ({
      contestant,
      msPerStep: round(own.medianMs, 1),
      // DDP computes `ranks` sequences in a step, and the others one.
      ofDdp:
        whole === undefined || contestant === 'ddp'
          ? null
          : round(pairedRatio(whole.wall, own) / ranks, 3),
      bytes: found.at(-1)?.[0]?.communicationBytes ?? 0,
      losses: found.map(([first]) => first?.losses.at(-1) ?? Number.NaN),
    }));
    const record = {
      ranks,
      ...common,
      balance: round(Math.max(...pairs) / mean(pairs), 3),
      residentBytes,
      contestants: measured,
    };
    return {
      rows: [
        ...measured.map(
          ({ contestant, msPerStep, ofDdp, bytes }) =>
            [
              contestant,
              `${msPerStep} ms a step${ofDdp === null ? '' : `, ${ofDdp} of DDP's speed`}, ${bytes} bytes of messages`,
            ] as const,
        ),
        ['pairs of the rank with most, over the mean', String(record.balance)],
        ['largest memory of the process', `${residentBytes} bytes`],
      ],
      record,
    };
  },
};

function started(ranks: number, settings: ContextSettings): ReturnType<typeof startRanks> {
  const contestant = JSON.stringify(settings);
  return startRanks(ranks, 'context-parallel/rank.ts', { contestant, precision: 'f32' });
}
