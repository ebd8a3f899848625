import { layoutOf, visualizeSharding } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';

const axes = [
  { name: 'dp', size: 2 },
  { name: 'tp', size: 3 },
];

describe('a picture of a sharding', () => {
  it('a picture of a sharding is a table of the ranks that hold each part', () => {
    expect(visualizeSharding(layoutOf(['dp', 'tp']), [8, 7], axes)).toBe(
      [
        '[8, 7] shard(0: dp) shard(1: tp) on dp=2 × tp=3',
        '            dim 1: 0-2  dim 1: 3-5  dim 1: 6',
        'dim 0: 0-3  rank 0      rank 1      rank 2',
        'dim 0: 4-7  rank 3      rank 4      rank 5',
      ].join('\n'),
    );
  });

  it('a picture of a sharding names ranks that hold the same, and those that hold nothing', () => {
    expect(visualizeSharding(layoutOf(['tp', null], ['dp']), [4, 2], axes)).toBe(
      [
        '[4, 2] shard(0: tp) partial(dp) on dp=2 × tp=3',
        '            dim 1: 0-1',
        'dim 0: 0-1  ranks 0, 3',
        'dim 0: 2-3  ranks 1, 4',
        'without elements: ranks 2, 5',
      ].join('\n'),
    );
  });

  it('a picture of a sharding shows the sharded dims of a tensor with more than two', () => {
    expect(visualizeSharding(layoutOf([null, 'dp', null, 'tp']), [9, 2, 9, 3], axes)).toContain(
      'dim 1: 1  rank 3    rank 4    rank 5',
    );
    const three = [...axes, { name: 'pp', size: 2 }];
    expect(() => visualizeSharding(layoutOf(['dp', 'tp', 'pp']), [2, 3, 2], three)).toThrow(
      '3 dims that are sharded',
    );
  });

  it('a picture of a sharding is an image with a box for each part', () => {
    const svg = visualizeSharding(layoutOf([['dp', 'tp']]), [9], axes, { format: 'svg' });
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"/u);
    expect(svg.match(/<rect [^>]*hsl/gu)).toHaveLength(5);
    expect(svg).toContain('without elements: rank 5');
  });

  it('a picture of a sharding keeps names of axes out of the markup', () => {
    const svg = visualizeSharding(layoutOf(['<a&b>']), [2], [{ name: '<a&b>', size: 2 }], {
      format: 'svg',
    });
    expect(svg).toContain('shard(0: &lt;a&amp;b&gt;)');
    expect(svg).not.toContain('<a&b>');
  });
});
