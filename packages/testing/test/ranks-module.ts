import type { RankContext } from '@shardwise/testing/ranks';

interface Data {
  readonly factor: number;
}

export function main({ rank, size, data }: RankContext<undefined, Data>): unknown {
  return { rank, size, value: data.factor * rank };
}

export async function failing({ rank }: RankContext): Promise<string> {
  if (rank === 1) throw new RangeError('out of tea', { cause: 'the kettle' });
  await new Promise((resolve) => setTimeout(resolve, rank === 0 ? 0 : 60_000));
  return 'done';
}

export function leaving({ rank }: RankContext): string {
  if (rank === 0) process.exit(7);
  return 'done';
}

export function lasting(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 60_000));
}
