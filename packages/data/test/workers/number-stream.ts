import { Stream } from '@shardwise/data';

/** The numbers up to a number, mixed, filtered and shuffled. */
export function numbers(end: number): Stream<number> {
  const upTo = (start: number, stop: number): Stream<number> =>
    Stream.of(function* () {
      for (let i = start; i < stop; i++) yield i;
    });
  return Stream.mix([
    { stream: upTo(0, end / 2), weight: 1 },
    { stream: upTo(end / 2, end), weight: 2 },
  ])
    .filter((item) => item % 5 !== 0)
    .shuffle({ bufferSize: 4, seed: 1 });
}

export function failing(): Stream<number> {
  return numbers(20).map((item) => {
    if (item === 7) throw new TypeError('no seven');
    return item;
  });
}

export const nothing = 1;
