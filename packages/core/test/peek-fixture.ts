// This program looks at the first batches of a loader with workers, in the way that the argument says. Then it has
// nothing left to do.
import { DataLoader } from '../src/data/data-loader.ts';
import type { Numbered } from './data-worker-fixture.ts';

const [way = ''] = process.argv.slice(2);
const module = new URL('./data-worker-fixture.ts', import.meta.url);
const loader = new DataLoader<Numbered>({
  dataset: { module, arguments: [{ length: 100, slowBelow: 100 }], length: 100 },
  workers: 2,
  prefetch: 4,
});

const ways: Readonly<Record<string, () => Promise<unknown>>> = {
  'take the first batch and drop the iterator': async () => {
    const { value } = await loader[Symbol.asyncIterator]().next();
    return value?.item.data[0];
  },
  'leave the loop': async () => {
    for await (const batch of loader) return batch.item.data[0];
    return undefined;
  },
  'make an iterator and never ask it': async () => {
    loader[Symbol.asyncIterator]();
    return 0;
  },
  'give the iterator back': async () => {
    const iterator = loader[Symbol.asyncIterator]();
    const { value } = await iterator.next();
    await iterator.return();
    return value?.item.data[0];
  },
  'read two epochs at once, and none to its end': async () => {
    const [a, b] = [loader[Symbol.asyncIterator](), loader[Symbol.asyncIterator]()];
    const [first, second] = await Promise.all([a.next(), b.next()]);
    return (first.value?.item.data[0] ?? 0) + (second.value?.item.data[0] ?? 0);
  },
};
console.log(`saw ${String(await ways[way]?.())}`);
