import { describe, expect, it } from 'vitest';
import { withOwnNames } from '../src/cli/other-launchers.ts';

/** The words after `shardwise run`. */
function own(words: string): string {
  return withOwnNames(['node', 'shardwise', 'run', ...words.split(' ')])
    .slice(3)
    .join(' ');
}

describe('options of other launchers', () => {
  it.each([
    [
      '--nnodes 2 --nproc_per_node=4 --node_rank 1 --rdzv_endpoint a:29400 --rdzv_id job --max_restarts 3 train.ts',
      '--nnodes 2 --nproc=4 --node-rank 1 --rdzv a:29400 --rdzv-id job --max-restarts 3 train.ts',
    ],
    ['--nproc-per-node 2 --rdzv-endpoint=a train.ts', '--nproc 2 --rdzv=a train.ts'],
    ['--num_machines 2 --machine_rank 0 train.ts', '--nnodes 2 --node-rank 0 train.ts'],
    ['--num_nodes 1 --num_gpus 8 train.ts', '--nnodes 1 --nproc 8 train.ts'],
    ['--plain -n 2 --num_gpus 3 train.ts', '--plain -n 2 --nproc 3 train.ts'],
    ['-n2 --no-report --num_gpus 3 train.ts', '-n2 --no-report --nproc 3 train.ts'],
  ])('%s are %s', (given, expected) => {
    expect(own(given)).toBe(expected);
  });

  it('stay as they are where they are values or belong to the script', () => {
    expect(own('--run-dir --num_gpus train.ts')).toBe('--run-dir --num_gpus train.ts');
    expect(own('-n 2 train.ts --num_gpus 3')).toBe('-n 2 train.ts --num_gpus 3');
    expect(own('--plain -- --num_gpus 3')).toBe('--plain -- --num_gpus 3');
  });

  it('stay as they are for other commands', () => {
    const words = ['node', 'shardwise', 'blame', '--num_gpus', 'run'];
    expect(withOwnNames(words)).toEqual(words);
  });
});
