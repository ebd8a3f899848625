import { createRequire } from 'node:module';
import { ShardwiseError } from '@shardwise/core/spec';
import { Command, CommanderError } from 'commander';
import {
  addText,
  parseCount,
  parseDevice,
  parseEndpoint,
  parseForm,
  parseNodes,
  parseRanks,
  parseReplicas,
  parseSeconds,
} from './parse-values.ts';

/** The exit code for a command line that is wrong. */
const USAGE_EXIT_CODE = 2;

/**
 * Runs the `shardwise` command and returns the exit code. What a command needs is loaded when it runs, so that help and
 * mistakes are printed at once. `argv` has the form of process.argv.
 */
export async function runCli(argv: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = new Command('shardwise')
    .description('Distributed deep-learning training for TypeScript')
    .version(packageVersion())
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({ outputError: () => undefined });
  program
    .command('run')
    .description('run a training script on several ranks, of this host or of several')
    .argument('<script>', 'the script that every rank runs, TypeScript or JavaScript')
    .argument('[arguments...]', "the script's own arguments")
    .option('-n, --nproc <count>', 'number of ranks of this host (default: 1)', parseRanks)
    .option(
      '--device <name>',
      'where ranks compute: cpu, wasm (WebAssembly alone) or webgpu (default: cpu)',
      parseDevice,
    )
    .option(
      '--servers <count>',
      'number of parameter servers beside the ranks, which parameterServer() uses (default: 0)',
      parseCount,
    )
    .option(
      '--server-replicas <count>',
      'on how many servers each parameter is, 1 or 2 (default: 1)',
      parseReplicas,
    )
    .option(
      '--server-snapshots <seconds>',
      'how long it is from one snapshot of a server to the next (default: 10)',
      parseSeconds,
    )
    .option(
      '--worker-restarts <count>',
      'workers of parameter servers come and go one by one, as processes; one that fails starts again so often',
      parseCount,
    )
    .option(
      '--ranks <form>',
      'threads, or processes, which do not end each other (default: threads on one host)',
      parseForm,
    )
    .option(
      '--transport <module>',
      'module that connects the ranks, a path or a package (default: the transport that fits)',
    )
    .option(
      '--transport-timeout <seconds>',
      'how long ranks may take to connect by --transport (default: 60)',
      parseSeconds,
    )
    .option('--nnodes <min[:max]>', 'number of hosts, each of which runs this command', parseNodes)
    .option('--node-rank <place>', 'place of this host; 0 serves the store', parseCount)
    .option('--rdzv <host:port>', 'where the hosts meet: an address of the first', parseEndpoint)
    .option('--rdzv-id <name>', 'name of the job, the same on all its hosts')
    .option('--secret-file <path>', "file with the job's secret (default: $SHARDWISE_SECRET)")
    .option(
      '--join-timeout <seconds>',
      'how long to wait for MIN hosts (default: 600)',
      parseSeconds,
    )
    .option('--last-call <seconds>', 'how long then to wait for MAX (default: 30)', parseSeconds)
    .option(
      '--max-restarts <count>',
      'how often ranks start again from the last checkpoint when one fails (default: 0)',
      parseCount,
    )
    .option(
      '--run-dir <directory>',
      'where logs, report and checkpoints go (default: runs/NAME-TIME)',
    )
    .option('--resume <directory>', 'checkpoint to continue from; "latest": that of the latest run')
    .option('--no-report', 'write no report.html and trace.json')
    .option('--plain', 'print lines instead of the live block', false)
    .passThroughOptions()
    .action(async (script: string, args: string[], raw: unknown) => {
      const { runByOptions } = await import('./commands.ts');
      exitCode = await runByOptions(script, args, raw);
    });
  program
    .command('blame')
    .description('compare what the ranks of a failed run called, and name the first that differs')
    .argument('<dumps...>', 'the run directory, its flight folder, or the files in it')
    .option('--json', 'print the verdict as JSON', false)
    .action(async (paths: string[], raw: unknown) => {
      const { blameByOptions } = await import('./commands.ts');
      exitCode = await blameByOptions(paths, raw);
    });
  program
    .command('export')
    .description('write the model of a checkpoint to one safetensors file')
    .argument('<checkpoint>', 'a checkpoint, or a run directory, whose latest one is taken')
    .argument('<file>', 'the file to write, such as model.safetensors')
    .option('--dtype <dtype>', 'round floats to f32, bf16 or f16')
    .option(
      '--metadata <name=text>',
      'a text that the file has beside the tensors; repeatable',
      addText,
      {},
    )
    .action(async (checkpoint: string, file: string, raw: unknown) => {
      const { exportByOptions } = await import('./commands.ts');
      await exportByOptions(checkpoint, file, raw);
      process.stdout.write(`Model: ${file}\n`);
    });
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return commanderExit(error);
    if (!ShardwiseError.isInstance(error)) throw error;
    process.stderr.write(`${error.message}\n`);
    return USAGE_EXIT_CODE;
  }
}

/** Returns the exit code for an error of commander. Commander has printed help and version already, but not errors. */
function commanderExit({ code, message, exitCode }: CommanderError): number {
  if (exitCode === 0) return 0;
  if (code !== 'commander.help') {
    const found = message.replace(/^error: /, '').replace(/\.$/, '');
    process.stderr.write(`Reading the command line: ${found}. See \`shardwise run --help\`\n`);
  }
  return USAGE_EXIT_CODE;
}

function packageVersion(): string {
  const manifest: unknown = createRequire(import.meta.url)('../../package.json');
  const hasVersion = typeof manifest === 'object' && manifest !== null && 'version' in manifest;
  return hasVersion ? String(manifest.version) : '';
}
