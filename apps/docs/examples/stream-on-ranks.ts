import { Stream } from '@shardwise/data';

const numbers = (start: number, end: number): Stream<number> =>
  Stream.of(function* () {
    for (let i = start; i < end; i++) yield i;
  });

const stream = Stream.mix([
  { stream: numbers(0, 6), weight: 3 },
  { stream: numbers(100, 104), weight: 1 },
]).shuffle({ bufferSize: 4 });

// Two ranks take two items each. Every rank saves the same state.
const seen: number[] = [];
const ranks = [0, 1].map((rank) => stream.split({ rank, numReplicas: 2 }));
for (const rank of ranks) {
  let taken = 0;
  for await (const item of rank) {
    seen.push(item);
    taken += 1;
    if (taken === 2) break;
  }
}
const states = ranks.map((rank) => JSON.stringify(rank.state()));
console.log(states[0] === states[1]); // prints true

// Three ranks continue with the rest: each item has come once.
for (const rank of [0, 1, 2]) {
  const share = stream.split({ rank, numReplicas: 3 });
  share.load(JSON.parse(states[0] ?? ''));
  for await (const item of share) seen.push(item);
}
console.log(seen.toSorted((a, b) => a - b).join(' ')); // prints 0 1 2 3 4 5 100 101 102 103
