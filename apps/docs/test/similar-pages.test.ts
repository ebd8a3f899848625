import { describe, expect, test } from 'vitest';
import { similarPages, wordsOf } from '../.vitepress/theme/similar-pages.ts';

const pages = [
  { url: '/', title: 'Shardwise' },
  { url: '/learn/all-reduce', title: '3. What an all-reduce does' },
  { url: '/learn/checkpoints', title: '9. Checkpoints and failures' },
  { url: '/guides/', title: 'Guides' },
  { url: '/guides/data', title: 'Load data' },
  { url: '/guides/from-pytorch', title: 'Move from PyTorch' },
  { url: '/explore/pipelines', title: 'Pipeline schedules' },
  { url: '/reference/tensor', title: 'Tensor' },
  { url: '/reference/data/loader', title: 'DataLoader' },
  { url: '/reference/optim/optimizers', title: 'Optimizers' },
  { url: '/reference/spec/operations', title: 'Operations of the graph' },
  {
    url: '/how-it-works/decisions/0026-the-documentation-site',
    title: '26. The documentation site',
  },
];

const first = (address: string): string | undefined =>
  similarPages(wordsOf(address), pages)[0]?.url;

describe('an address that is not there leads to the page that is most like it', () => {
  test.each([
    ['pipeline-schedules', '/explore/pipelines'],
    ['guides/pytorch.html', '/guides/from-pytorch'],
    ['learn/allreduce', '/learn/all-reduce'],
    ['learn/all_reduce', '/learn/all-reduce'],
    ['reference/api/core-data DataLoader', '/reference/data/loader'],
    ['reference/api/tensor', '/reference/tensor'],
    ['reference/optimiser', '/reference/optim/optimizers'],
    ['guides/dataa', '/guides/data'],
    ['learn/chekpoints', '/learn/checkpoints'],
    ['guides', '/guides/'],
  ])('%s', (address, url) => {
    expect(first(address)).toBe(url);
  });

  test.each(['no-such-page', 'none', 'xyzzy', ''])('%s is like none', (address) => {
    expect(first(address)).toBeUndefined();
  });
});
