import { describe, expect, it } from 'vitest';
import { withOwnNames } from '../src/cli/other-launchers.ts';
import {
  granted,
  joint,
  ownNames,
  refused,
  refusedFamilies,
  synonyms,
} from '../src/cli/other-options.ts';
import golden from './golden/launchers.json' with { type: 'json' };

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
    ['--num_machines=2 --num_processes 8 train.ts', '--nnodes=2 --nproc 4 train.ts'],
    ['--num-processes=3 --multi_gpu train.ts', '--nproc 3 train.ts'],
    [
      '--num_machines 2 --main_process_ip a --main_process_port 5 train.ts',
      '--nnodes 2 --rdzv a:5 train.ts',
    ],
    ['--nnodes 2 --master_addr ::1 --master-port=5 train.ts', '--nnodes 2 --rdzv [::1]:5 train.ts'],
    ['--nnodes 2 --master-addr a train.ts', '--nnodes 2 --rdzv a train.ts'],
    ['--rdzv b:1 --master_addr a train.ts', '--rdzv b:1 train.ts'],
    ['--master_port 29500 train.ts', 'train.ts'],
    ['--standalone --nnodes=1 --nproc_per_node 2 train.ts', '--nnodes=1 --nproc 2 train.ts'],
    ['--rdzv_backend c10d --nnodes 2 --rdzv_endpoint a train.ts', '--nnodes 2 --rdzv a train.ts'],
    ['--num_nodes 1 --num_gpus 8 train.ts', '--nnodes 1 --nproc 8 train.ts'],
    ['--config_file a.yaml --num_gpus 2 train.ts', '--config-file a.yaml --nproc 2 train.ts'],
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

describe('a hostfile', () => {
  const text = '# the cluster\none slots=4\n\ntwo slots=2 # the small one\nthree slots=4\n';

  function ownOn(host: string, words: string, file = text): string {
    const machine = { readFile: () => file, names: () => [host] };
    return withOwnNames(['node', 'shardwise', 'run', ...words.split(' ')], machine)
      .slice(3)
      .join(' ');
  }

  it.each([
    ['one', '', '--nnodes 3 --nproc 4 --node-rank 0 --rdzv one'],
    ['two', '', '--nnodes 3 --nproc 2 --node-rank 1 --rdzv one'],
    ['two', '--master_port 7 ', '--nnodes 3 --nproc 2 --node-rank 1 --rdzv one:7'],
    ['three', '--include two@three:1,3 ', '--nnodes 2 --nproc 2 --node-rank 1 --rdzv two'],
    ['two', '--num_nodes 2 ', '--nnodes 2 --nproc 2 --node-rank 1 --rdzv one'],
    ['three', '-i two@three:1,3 ', '--nnodes 2 --nproc 2 --node-rank 1 --rdzv two'],
    ['three', '--exclude two@one:0 ', '--nnodes 2 --nproc 4 --node-rank 1 --rdzv one'],
    ['two', '--include two:1 ', '--nproc 1'],
  ])('says on %s with "%s" what this host starts', (host, more, expected) => {
    expect(ownOn(host, `--hostfile hosts ${more}train.ts`)).toBe(`${expected} train.ts`);
  });

  it('gives way to our own options', () => {
    expect(ownOn('two', '-n 1 --hostfile hosts --include two train.ts')).toBe('-n 1 train.ts');
    expect(ownOn('elsewhere', '--node-rank 2 --nproc 1 --hostfile hosts train.ts')).toBe(
      '--node-rank 2 --nproc 1 --nnodes 3 --rdzv one train.ts',
    );
  });

  it.each([
    ['--hostfile hosts', 'one\n', /Line 1 of --hostfile/],
    ['--hostfile hosts', 'one slots=1\none slots=2\n', /Line 2 of --hostfile: one is there twice/],
    ['--hostfile hosts', 'one slots=0\n', /Line 1 of --hostfile/],
    ['--hostfile hosts', '# nobody\n', /no host/],
    ['--hostfile hosts', 'two slots=1\n', /it is called one/],
    ['--hostfile hosts --include four', text, /"four" is no host/],
    ['--hostfile hosts --include two:2', text, /two has no slot 2/],
    ['--hostfile hosts --include two@two:1', text, /two is there twice/],
    ['--hostfile hosts --exclude one@two@three', text, /it leaves no host/],
    ['--hostfile hosts --include one --exclude two', text, /give one of the two/],
    ['--hostfile hosts --node-rank 3', text, /3 hosts, which count from 0/],
    ['--hostfile hosts --num_nodes 4', text, /--hostfile has 3/],
    ['--include one:0', text, /it needs --hostfile/],
  ])('is refused with %s where it holds %j', (words, file, message) => {
    expect(() => ownOn('one', `${words} train.ts`, file)).toThrow(message);
  });

  it('is refused if it cannot be read', () => {
    expect(() => own('--hostfile /no/such/file train.ts')).toThrow(
      /--hostfile \/no\/such\/file: ENOENT/,
    );
  });
});

describe('options that mean something else here', () => {
  it.each([
    ['--mixed_precision bf16 train.ts', /--mixed_precision.*autocast/s],
    ['--use_fsdp train.ts', /dist\.fsdp/],
    ['--standalone --nnodes 2 train.ts', /it means one host, but --nnodes is 2/],
    ['--rdzv-backend=etcd train.ts', /the first host serves the store/],
    ['-m train', /the path of the script/],
    ['--launcher pdsh train.ts', /each host runs this command/],
    ['--num_machines 2 --num_processes 3 train.ts', /which have equally many/],
    ['--num_processes many train.ts', /which have equally many/],
  ])('are refused with the reason: %s', (words, message) => {
    expect(() => own(words)).toThrow(message);
  });

  const { torchrun, accelerate, deepspeed } = golden;

  it.each([
    ['torchrun', torchrun],
    ['accelerate launch', accelerate],
    ['deepspeed', deepspeed],
  ])('are in one table for each option of %s', (_, options) => {
    const tables = (option: string): number => {
      const name = option.replaceAll('_', '-');
      const isIn = [
        Object.hasOwn(synonyms, name),
        Object.hasOwn(joint, name),
        granted.has(name) || name === '--standalone',
        ownNames.has(name),
        Object.hasOwn(refused, name),
        refusedFamilies.some(([prefix]) => name.startsWith(prefix)),
      ];
      return isIn.filter(Boolean).length;
    };
    expect(options.length).toBeGreaterThan(20);
    expect(options.filter((option) => tables(option) !== 1)).toEqual([]);
  });

  it('are all refused without their values, which may be secrets', () => {
    const all = [...torchrun, ...accelerate, ...deepspeed].filter((option) => {
      const name = option.replaceAll('_', '-');
      return (
        Object.hasOwn(refused, name) || refusedFamilies.some(([prefix]) => name.startsWith(prefix))
      );
    });
    for (const option of all) {
      const run = (): string => own(`${option}=k3y train.ts`);
      expect(run).toThrow(option);
      expect(run).not.toThrow('k3y');
    }
  });

  it('belong to the script after it', () => {
    expect(own('train.ts --mixed_precision bf16')).toBe('train.ts --mixed_precision bf16');
  });
});
