import { describe, expect, test } from 'vitest';
import { simulateSchedule } from '@shardwise/strategies';
import {
  dalyInterval,
  firstRankOf,
  goodputOf,
  namedCluster,
  namedModel,
  oneDevice,
  readCluster,
  runOfLayout,
  type SimulatedRun,
  simulateFailures,
  simulateRun,
  stepTermsOf,
  youngInterval,
} from '@shardwise/planner';
import { lowerSchedule, pipelineSchedule } from '@shardwise/strategies';

const fast = {
  devicesPerHost: 4,
  cards: 'one for each device',
  insideBytesPerSecond: 100,
  cardBytesPerSecond: 10,
  insideLatencySeconds: 0,
  cardLatencySeconds: 0,
} as const;

function runOf(
  more: Partial<SimulatedRun> & { places?: never; microbatches?: number; ranks?: number } = {},
): SimulatedRun {
  const { microbatches = 8, ranks = 4, ...rest } = more;
  const schedule = lowerSchedule(pipelineSchedule('1f1b', { ranks, microbatches }));
  const times = { forward: 1, inputGradient: 1, weightGradient: 1 };
  return {
    schedule,
    replicas: 1,
    ranksOfPlace: 1,
    places: Array.from({ length: ranks }, (_, place) => ({
      stages: new Map([[place, times]]),
      reduceSeconds: 0,
      updateSeconds: 0,
    })),
    messageBytes: 0,
    topology: fast,
    ...rest,
  };
}

describe('a simulated step', () => {
  test('of 1f1b with p = 4, m = 8, F = 1 and B = 2 takes 33, as the closed form says', () => {
    const simulation = simulateRun(runOf());
    expect(simulation.stepSeconds).toBe(33);
    expect(simulation.idleShare).toBeCloseTo(9 / 33);
  });

  test('plays the schedule as the simulator of schedules does, if messages take no time', () => {
    for (const name of ['gpipe', '1f1b', 'zb1p'] as const) {
      const schedule = pipelineSchedule(name, { ranks: 4, microbatches: 6 });
      const simulated = simulateRun(
        runOf({ schedule: lowerSchedule(schedule, { mergeBackwards: 'none' }) }),
      );
      const { makespanMs } = simulateSchedule(schedule, {
        stages: Array.from({ length: 4 }, () => ({
          forwardMs: 1,
          inputGradientMs: 1,
          weightGradientMs: 1,
        })),
      });
      expect(simulated.stepSeconds).toBe(makespanMs);
    }
  });

  test('waits for messages: latency and bytes over bandwidth', () => {
    const two = runOf({ ranks: 2, microbatches: 1, messageBytes: 50 });
    // Forward, message of 0.5 s inside of the host, forward, backward, message, backward.
    expect(simulateRun(two).stepSeconds).toBe(1 + 0.5 + 1 + 2 + 0.5 + 2);
    const apart = { ...two, topology: { ...fast, devicesPerHost: 1, cardLatencySeconds: 0.25 } };
    expect(simulateRun(apart).stepSeconds).toBe(1 + 5.25 + 1 + 2 + 5.25 + 2);
  });

  test('shares the bandwidth of a card among the messages that go over it at the same time', () => {
    // Two replicas of two places, each host with one place of both: their messages meet on the card of the host.
    const apart = { ...fast, devicesPerHost: 2 };
    const run = runOf({
      ranks: 2,
      microbatches: 1,
      replicas: 2,
      messageBytes: 10,
      topology: apart,
    });
    const own = simulateRun(run).stepSeconds;
    const shared = simulateRun({
      ...run,
      topology: { ...apart, cards: 'one for each host' },
    }).stepSeconds;
    expect(own).toBe(6 + 2 * 1);
    expect(shared).toBe(6 + 2 * 2);
  });

  test('shares the spine between switches', () => {
    const run = runOf({ ranks: 2, microbatches: 1, replicas: 2, messageBytes: 10 });
    const topology = {
      ...fast,
      devicesPerHost: 2,
      spine: { hostsPerSwitch: 1, bytesPerSecond: 5 },
    };
    expect(simulateRun({ ...run, topology }).stepSeconds).toBe(6 + 2 * 4);
  });

  test('is as slow as its slowest rank: other replicas wait for it in the reduction', () => {
    const run = runOf({ replicas: 3, ranksOfPlace: 2, stragglers: { 3: 2 } });
    const simulation = simulateRun(run);
    const alone = simulateRun(runOf({ stragglers: { 0: 2 } }));
    expect(simulation.stepSeconds).toBe(alone.stepSeconds);
    // Rank 3 is in place 0 of replica 1. Its neighbour waits with it, the replicas 0 and 2 at the end.
    expect(simulation.rank(2).backwardSeconds).toBe(simulation.rank(3).backwardSeconds);
    expect(simulation.rank(0).backwardSeconds).toBe(33);
    expect(simulation.rank(0).endSeconds).toBe(simulation.rank(3).endSeconds);
  });

  test('keeps the timeline of the ranks that are asked for, without gaps between what they do and wait for', () => {
    const run = runOf({ messageBytes: 10, replicas: 2 });
    const rank = firstRankOf(run, 2, 1);
    const { timelines, stepSeconds } = simulateRun(run, { timelines: [rank] });
    const spans = timelines.get(rank) ?? [];
    expect(spans.filter(({ category }) => category === 'compute')).toHaveLength(16);
    for (const [index, span] of spans.entries()) {
      expect(span.startSeconds).toBeCloseTo(spans[index - 1]?.endSeconds ?? 0);
    }
    expect(spans.at(-1)?.endSeconds).toBeLessThanOrEqual(stepSeconds);
  });

  test('refuses ranks that the run does not have', () => {
    expect(() => simulateRun(runOf({ stragglers: { 4: 2 } }))).toThrow('the rank 4');
    expect(() => simulateRun(runOf(), { timelines: [9] })).toThrow('the rank 9');
  });
});

describe('replicas that do the same', () => {
  const model = namedModel('gpt:1.7b');
  const layout = {
    ...oneDevice,
    dataParallel: 8,
    tensorParallel: 2,
    pipelineParallel: 4,
    zero: 1,
    shardRanks: 8,
    sequenceParallel: true,
    schedule: 'interleaved1f1b',
    stagesPerRank: 2,
  } as const;
  const workload = { batch: 64, sequence: 2048 };

  test.each([
    ['without stragglers', {}, 1],
    ['with one straggler', { 5: 1.5 }, 2],
    ['with stragglers in several places', { 5: 1.5, 23: 1.5, 63: 3 }, 4],
  ])('are played once %s, with the result of playing each', (_, stragglers, played) => {
    const run = runOfLayout(model, layout, workload, namedCluster('64xa100'), stragglers);
    const once = simulateRun(run);
    const each = simulateRun(run, { once: false });
    expect(once.played).toBe(played);
    expect(each.played).toBe(8);
    expect(once.stepSeconds).toBe(each.stepSeconds);
    expect(once.idleShare).toBeCloseTo(each.idleShare, 12);
    for (let rank = 0; rank < 64; rank++) expect(once.rank(rank)).toEqual(each.rank(rank));
  });

  test('are played together if their messages share links', () => {
    const wide = { ...layout, dataParallel: 16, shardRanks: 16 };
    const made = runOfLayout(model, wide, { ...workload, batch: 128 }, namedCluster('128xa100'), {
      5: 1.5,
    });
    const run = { ...made, topology: { ...made.topology, cards: 'one for each host' } } as const;
    const once = simulateRun(run);
    const each = simulateRun(run, { once: false });
    // Four replicas have their places on the same hosts.
    expect(once.played).toBe(8);
    expect(each.played).toBe(16);
    for (let rank = 0; rank < 128; rank++) {
      expect(once.rank(rank).endSeconds).toBeCloseTo(each.rank(rank).endSeconds, 9);
    }
  });

  test('of 10,240 ranks with one straggler take the events of two', () => {
    const large = {
      ...layout,
      dataParallel: 160,
      tensorParallel: 8,
      pipelineParallel: 8,
      shardRanks: 160,
    };
    const run = runOfLayout(
      namedModel('gpt:175b'),
      { ...large, stagesPerRank: 3 },
      { batch: 160 * 32, sequence: 2048 },
      namedCluster('10240xh100'),
      { 77: 1.3 },
    );
    const simulation = simulateRun(run, { timelines: [0, 77] });
    expect(simulation.played).toBe(2);
    expect(simulation.rank(10_239).endSeconds).toBeGreaterThan(
      simulation.rank(10_239).backwardSeconds,
    );
  });
});

test('the simulated step of a layout is what the terms of its prediction add up to', () => {
  const cluster = readCluster({ ...namedCluster('32xa100'), name: 'free links' });
  const layout = {
    ...oneDevice,
    dataParallel: 2,
    tensorParallel: 4,
    pipelineParallel: 4,
    sequenceParallel: true,
  };
  const workload = { batch: 32, sequence: 2048 };
  const model = namedModel('gpt:3.6b');
  const { stepSeconds } = simulateRun(runOfLayout(model, layout, workload, cluster));
  const terms = stepTermsOf(model, layout, workload, cluster);
  const sum = Object.values<number>({ ...terms }).reduce((total, each) => total + each, 0);
  // The simulator plays unequal stages, where the prediction takes the slowest for all.
  expect(Math.abs(stepSeconds / sum - 1)).toBeLessThan(0.03);
});

describe('failures', () => {
  const costs = { meanSecondsBetweenFailures: 10_000, checkpointSeconds: 60, restartSeconds: 300 };

  test('give the intervals of Young 1974 and Daly 2006', () => {
    expect(youngInterval(costs)).toBeCloseTo(Math.sqrt(2 * 60 * 10_000));
    // The best of the closed form, by search, is within a part in a thousand of the goodput at Daly's interval.
    const best = Math.max(
      ...Array.from({ length: 400 }, (_, at) => goodputOf(costs, 10 * (at + 1))),
    );
    expect(goodputOf(costs, dalyInterval(costs))).toBeGreaterThan(0.9995 * best);
    expect(dalyInterval({ ...costs, checkpointSeconds: 30_000 })).toBe(10_000);
  });

  test('as they are simulated have the goodput of the closed form', () => {
    const intervalSeconds = dalyInterval(costs);
    const simulated = simulateFailures({ ...costs, intervalSeconds, usefulSeconds: 4e7, seed: 1 });
    expect(simulated.failures).toBeGreaterThan(3000);
    expect(Math.abs(simulated.goodput / goodputOf(costs, intervalSeconds) - 1)).toBeLessThan(0.01);
    expect(simulateFailures({ ...costs, intervalSeconds, usefulSeconds: 4e7, seed: 1 })).toEqual(
      simulated,
    );
  });

  test('make shorter and longer intervals worse', () => {
    const goodput = (intervalSeconds: number): number =>
      simulateFailures({ ...costs, intervalSeconds, usefulSeconds: 2e7, seed: 3 }).goodput;
    const best = goodput(dalyInterval(costs));
    expect(goodput(dalyInterval(costs) / 8)).toBeLessThan(best);
    expect(goodput(dalyInterval(costs) * 8)).toBeLessThan(best);
  });
});
