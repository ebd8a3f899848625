import { dist } from 'shardwise';
import type { Bench, BenchResult } from '../bench.ts';
import { startRanks } from '../ranks.ts';
import type { RankRound } from '../rank-messages.ts';
import { countOf, roundsFlag, roundsOf } from '../rounds.ts';
import { mean, pairedRatio, round, summarize } from '../summary.ts';
import { wall } from '../wall.ts';
import { trainOnLongSequence } from './long-sequence.ts';
import type { ContextSettings } from './settings.ts';

const ROUNDS = 9;
const usual = { ranks: 2, length: 4096, layers: 2, width: 128, heads: 4, vocabulary: 512 };
/** A sequence of which no rank could keep the logits: 17 GB in f32. */
const long = { length: 131_072, layers: 1, width: 64, heads: 2, vocabulary: 32_768, tile: 512 };
const longRanks = 4;
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
    long: { type: 'boolean' },
  },
  run: async (values): Promise<BenchResult> => {
    if (values['long'] === true) return measureLong();
    const sizeOf = (name: keyof typeof usual): number => countOf(values, name, usual[name]);
    const [ranks, length, layers] = [sizeOf('ranks'), sizeOf('length'), sizeOf('layers')];
    const common = { length, layers, width: sizeOf('width'), heads: sizeOf('heads') };
    const rounds = roundsOf(values, ROUNDS);
    const only = values['only'];
    const names: readonly string[] = typeof only === 'string' ? only.split(',') : contestants;
    const chosen = contestants.filter((each) => names.includes(each));
    const worlds = chosen.map((contestant) => {
      const settings = { ...common, vocabulary: sizeOf('vocabulary'), contestant };
      return {
        contestant,
        ranks: started(ranks, settings),
        found: new Array<RankRound[]>(),
        processor: new Array<number>(),
      };
    });
    // The largest memory of the process, as all ranks are its threads.
    let residentBytes = 0;
    try {
      for (let index = 0; index <= rounds; index++) {
        for (const world of worlds) {
          const before = process.cpuUsage();
          world.found.push(await world.ranks.round({ mode: 'together', steps: 1 }));
          const { user, system } = process.cpuUsage(before);
          world.processor.push((user + system) / 1000);
          residentBytes = Math.max(residentBytes, process.memoryUsage.rss());
        }
      }
    } finally {
      for (const world of worlds) await world.ranks.close();
    }
    const times = worlds.map(({ contestant, found, processor }) => ({
      contestant,
      found,
      wall: wall(found),
      // The first step compiles.
      processor: summarize(processor.slice(1).map((ms) => [ms])),
    }));
    const whole = times.find(({ contestant }) => contestant === 'ddp');
    const cut = new dist.SequenceCut(length, { ranks, neighbours: 1, order: 'headTail' });
    const pairs = cut.causalPairs();
    const measured = times.map(({ contestant, found, processor, wall: own }) => ({
      contestant,
      msPerStep: round(own.medianMs, 1),
      processorMsPerStep: round(processor.medianMs, 1),
      // DDP computes `ranks` sequences in a step, and the others one.
      ...(whole === undefined || contestant === 'ddp'
        ? { ofDdp: null, ofDdpByProcessorTime: null }
        : {
            ofDdp: round(pairedRatio(whole.wall, own) / ranks, 3),
            ofDdpByProcessorTime: round(pairedRatio(whole.processor, processor) / ranks, 3),
          }),
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
          ({ contestant, msPerStep, processorMsPerStep, ofDdp, ofDdpByProcessorTime, bytes }) => {
            const relative =
              ofDdp === null
                ? ''
                : `, ${ofDdp} of DDP's speed, ${ofDdpByProcessorTime} by processor time`;
            return [
              contestant,
              `${msPerStep} ms a step, ${processorMsPerStep} ms of processor time${relative}, ${bytes} bytes of messages`,
            ] as const;
          },
        ),
        ['pairs of the rank with most, over the mean', String(record.balance)],
        ['largest memory of the process', `${residentBytes} bytes`],
      ],
      record,
    };
  },
};

/** A step on a sequence of 131,072 tokens, after one that compiles. */
async function measureLong(): Promise<BenchResult> {
  const steps = await trainOnLongSequence(longRanks, 2, long);
  const last = steps.at(-1);
  if (last === undefined) throw new RangeError('no step');
  return {
    rows: [
      [
        'a step',
        `${round(last.ms / 1000, 1)} s, ${round(last.processorMs / 1000, 1)} s of processor time`,
      ],
      ['largest memory of the process', `${last.peakBytes} bytes`],
      ['losses', steps.map(({ loss }) => round(loss, 4)).join(', ')],
    ],
    record: { ranks: longRanks, ...long, steps },
  };
}

function started(ranks: number, settings: ContextSettings): ReturnType<typeof startRanks> {
  const contestant = JSON.stringify(settings);
  return startRanks(ranks, 'context-parallel/rank.ts', { contestant, precision: 'f32' });
}
