import { samplerSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { DistributedSampler } from '../src/data/distributed-sampler.ts';
import { RandomSampler } from '../src/data/random-sampler.ts';
import { SequentialSampler } from '../src/data/sequential-sampler.ts';
import { WeightedRandomSampler } from '../src/data/weighted-random-sampler.ts';

for (const shuffle of [true, false]) {
  for (const dropLast of [true, false]) {
    testSuite(
      samplerSuite({
        name: `DistributedSampler, shuffle ${shuffle}, dropLast ${dropLast},`,
        create: (dataset, numReplicas) =>
          Array.from({ length: numReplicas }, (_, rank) => {
            const share = { dataset, numReplicas, rank, shuffle, dropLast };
            return new DistributedSampler({ ...share, seed: 5 });
          }),
        shuffles: shuffle,
        visits: dropLast ? 'most' : 'all',
      }),
    );
  }
}

for (const shuffle of [true, false]) {
  testSuite(
    samplerSuite({
      name: `DistributedSampler, shuffle ${shuffle}, repeats false,`,
      create: (dataset, numReplicas) =>
        Array.from({ length: numReplicas }, (_, rank) => {
          const share = { dataset, numReplicas, rank, shuffle, repeats: false };
          return new DistributedSampler({ ...share, seed: 5 });
        }),
      shuffles: shuffle,
      visits: 'once',
    }),
  );
}

for (const replacement of [true, false]) {
  testSuite(
    samplerSuite({
      name: `RandomSampler, replacement ${replacement},`,
      create: (length) => [new RandomSampler({ length, replacement, seed: 5 })],
      ranks: [1],
      shuffles: true,
      visits: replacement ? 'any' : 'all',
    }),
  );
}

testSuite(
  samplerSuite({
    name: 'SequentialSampler',
    create: (length) => [new SequentialSampler(length)],
    ranks: [1],
    shuffles: false,
  }),
);

for (const replacement of [true, false]) {
  testSuite(
    samplerSuite({
      name: `WeightedRandomSampler, replacement ${replacement},`,
      create: (length) => {
        const weights = Array.from({ length }, (_, i) => 1 + (i % 3));
        return [new WeightedRandomSampler({ weights, numSamples: length, replacement, seed: 5 })];
      },
      ranks: [1],
      shuffles: true,
      visits: replacement ? 'any' : 'all',
    }),
  );
}
