import { ShardwiseError } from '@shardwise/core/spec';
import { Command, CommanderError, Option } from 'commander';
import { packageVersion } from '../text/package-version.ts';
import { addCoordinate } from './coordinate-options.ts';
import { withOwnNames } from './other-launchers.ts';
import {
  addItem,
  addText,
  parseCount,
  parseDevice,
  parseEndpoint,
  parseForm,
  parseMemory,
  parseNodes,
  parseProfileSteps,
  parseRanks,
  parseReplicas,
  parseSeconds,
} from './parse-values.ts';
import { addServe } from './serve-options.ts';

/** The exit code for a command line that is wrong. */
const USAGE_EXIT_CODE = 2;
/** The dtypes of the floats of files and of stored parameters. */
const dtypes = ['f32', 'bf16', 'f16'];

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
    .configureOutput({ outputError: () => undefined })
    // The terms of the commands are long: by default, terminals of 80 columns would break lines within words.
    .configureHelp({ minWidthToWrap: 20 });
  program
    .command('run')
    .description('run a training script on several ranks, of this host or of several')
    .argument('<script>', 'the script that every rank runs, TypeScript or JavaScript')
    .argument('[arguments...]', "the script's own arguments")
    .option('-n, --nproc <count>', 'number of ranks of this host (default: 1)', parseRanks)
    .option(
      '--min-nproc <count>',
      'ranks that call survive() go on without one, or without a host, that is lost, as long as this many are left of all hosts; another one is started in its place while --max-restarts lasts (default: all ranks start again)',
      parseRanks,
    )
    .option(
      '--device <name>',
      'device of the ranks: cpu, wasm (WebAssembly alone) or webgpu (default: cpu)',
      parseDevice,
    )
    .option(
      '--servers <count>',
      'number of parameter servers beside the ranks, which parameterServer() uses (default: 0)',
      parseCount,
    )
    .option(
      '--server-replicas <count>',
      'number of servers that keep each parameter, 1 or 2 (default: 1)',
      parseReplicas,
    )
    .option(
      '--server-snapshots <seconds>',
      'least time between two snapshots of a server (default: 10)',
      parseSeconds,
    )
    .option(
      '--worker-restarts <count>',
      'with --servers: ranks are processes that join and leave one by one, and this is how often one that fails starts again',
      parseCount,
    )
    .option(
      '--ranks <form>',
      'threads or processes; a process that crashes does not end the others (default: threads on one host)',
      parseForm,
    )
    .option(
      '--transport <module>',
      'path or package of a module that connects the ranks (default: the launcher chooses)',
    )
    .option(
      '--transport-timeout <seconds>',
      'time limit for connecting the ranks by --transport (default: 60)',
      parseSeconds,
    )
    .option('--nnodes <min[:max]>', 'number of hosts; each of them runs this command', parseNodes)
    .option('--node-rank <place>', 'place of this host; 0 serves the store', parseCount)
    .option('--rdzv <host:port>', 'address of host 0, where the hosts meet', parseEndpoint)
    .option('--rdzv-id <name>', 'name of the job, the same on all its hosts')
    .option('--secret-file <path>', "file with the job's secret (default: $SHARDWISE_SECRET)")
    .option(
      '--join-timeout <seconds>',
      'time limit for the first MIN hosts to arrive (default: 600)',
      parseSeconds,
    )
    .option(
      '--last-call <seconds>',
      'how long to wait then for further hosts, up to MAX (default: 30)',
      parseSeconds,
    )
    .option(
      '--max-restarts <count>',
      'how often all ranks start again from the last checkpoint after one fails (default: 0)',
      parseCount,
    )
    .option(
      '--run-dir <directory>',
      'folder for logs, report and checkpoints (default: runs/NAME-TIME)',
    )
    .option(
      '--checkpoint-dir <place>',
      'folder, or address such as s3://bucket/run, for checkpoints (default: that of the run)',
    )
    .option(
      '--resume <directory>',
      'checkpoint to continue from; "latest" is that of the latest run',
    )
    .option(
      '--metrics <sink>',
      'where figures of steps also go: csv, opentelemetry, prometheus, tensorboard, or a module; repeatable',
      addItem,
      [],
    )
    .option(
      '--config-file <path>',
      'file of `shardwise config` or `accelerate config`; other options come before what it says',
    )
    .option(
      '--plan <file>',
      'what `shardwise plan --json` printed; at the end, the run is compared with its best layout',
    )
    .option('--no-report', 'write no report.html and trace.json')
    .option('--plain', 'print lines instead of the live block', false)
    .passThroughOptions()
    .action(async (script: string, args: string[], raw: unknown, run: Command) => {
      noticeMisplacedOptions(script, args, run);
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
    .command('doctor')
    .description('say what this host can do, what holds it back, and what to do about it')
    .option('--json', 'print the findings as JSON', false)
    .option('--page <file>', 'write a page with a picture of the links, such as links.html')
    // `shardwise run` parses the following options, which it gets as they are.
    .option('-n, --nproc <count>', 'start ranks, as run does, and measure the links between them')
    .option('--ranks <form>', 'threads or processes')
    .option('--transport <module>', 'module that connects the ranks')
    .option('--nnodes <count>', 'number of hosts; each of them runs this command')
    .option('--node-rank <place>', 'place of this host; 0 shows the links')
    .option('--rdzv <host:port>', 'address of host 0, where the hosts meet')
    .option('--rdzv-id <name>', 'name of the job, the same on all its hosts')
    .option('--secret-file <path>', "file with the job's secret (default: $SHARDWISE_SECRET)")
    .option('--join-timeout <seconds>', 'time limit for the hosts to arrive')
    .action(async (raw: unknown) => {
      const { doctorByOptions } = await import('./commands.ts');
      await doctorByOptions(argv[1] ?? '', raw);
    });
  program
    .command('profile')
    .description('run a script until some of its steps are recorded, and say what takes their time')
    .argument('<script>', 'the training script, which must call context.report() in each step')
    .argument('[arguments...]', "the script's own arguments; options of these names go after --")
    .option('-n, --nproc <count>', 'number of ranks (default: 1)', parseRanks)
    .option(
      '--steps <first-last>',
      'steps that are recorded, by the numbers that the script reports',
      parseProfileSteps,
      [10, 12],
    )
    .option('--device <name>', 'device of the ranks: cpu, wasm or webgpu', parseDevice)
    .option('--ranks <form>', 'threads or processes', parseForm)
    .option('--run-dir <directory>', 'folder for the page and the report of the run')
    .option(
      '--resume <directory>',
      'checkpoint to continue from; "latest" is that of the latest run',
    )
    .option('--plain', 'print lines instead of the live block', false)
    .passThroughOptions()
    .action(async (script: string, args: string[], raw: unknown) => {
      const { profileByOptions } = await import('./commands.ts');
      exitCode = await profileByOptions(script, args, raw);
    });
  program
    .command('top')
    .description('show a run while it lasts: its steps, its speed, and each rank, the worst first')
    .argument(
      '[run]',
      "a run directory, HOST:PORT of a run's --rdzv, or the address of a coordinator (default: the latest run in runs/)",
    )
    .option('--once', 'show it once, and not until it is over', false)
    .option('--json', 'print it once, as JSON', false)
    .option('--page <file>', 'also write a page that loads itself again, such as top.html')
    .option('--secret-file <path>', "file with the job's secret (default: $SHARDWISE_SECRET)")
    .action(async (run: string | undefined, raw: unknown) => {
      const { topByOptions } = await import('./commands.ts');
      await topByOptions(run, raw);
    });
  program
    .command('verify')
    .description(
      'run the steps of a script on several ranks and on one, and name the first tensor that differs',
    )
    .argument('<script>', 'the training script, which must use dist.parallelize()')
    .argument('[arguments...]', "the script's own arguments; options of these names go after --")
    .option('-n, --nproc <count>', 'number of ranks', parseRanks, 2)
    .option('--steps <count>', 'number of optimizer updates that are compared', parseRanks, 3)
    .option('--json', 'print the result as JSON', false)
    .allowUnknownOption()
    .action(async (script: string, args: string[], raw: unknown) => {
      const { verifyByOptions } = await import('./commands.ts');
      // Commander keeps the separator if unknown options stand before it.
      const separator = args.indexOf('--');
      const own = separator < 0 ? args : args.toSpliced(separator, 1);
      exitCode = await verifyByOptions(script, own, raw);
    });
  program
    .command('config')
    .description('ask how ranks are started and divide a model, and write the file of accelerate')
    .option('--config-file <path>', 'file to write', 'default_config.yaml')
    .option('--default', 'ask nothing, and write the defaults', false)
    .action(async (raw: unknown) => {
      const { configByOptions } = await import('./commands.ts');
      await configByOptions(raw);
    });
  program
    .command('export')
    .description('write the model of a checkpoint to one safetensors file')
    .argument('<checkpoint>', 'a checkpoint, or a run directory, whose latest one is taken')
    .argument('<file>', 'the file to write, such as model.safetensors')
    .addOption(new Option('--dtype <dtype>', 'round floats').choices(dtypes))
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
  program
    .command('estimate-memory')
    .description('say what the weights of a model, and training it, take of the memory of a rank')
    .argument(
      '<model>',
      'a folder with safetensors, its address, or a name of the Hugging Face hub',
    )
    .option('-n, --nproc <count>', 'number of ranks of each host', parseRanks, 8)
    .option('--nnodes <count>', 'number of hosts', parseRanks, 1)
    .addOption(
      new Option('--dtype <dtype>', 'what parameters are stored in')
        .choices(dtypes)
        .default('bf16'),
    )
    .option('--json', 'print the sizes as JSON', false)
    .action(async (model: string, raw: unknown) => {
      const { estimateByOptions } = await import('./commands.ts');
      await estimateByOptions(model, raw);
    });
  program
    .command('plan')
    .description(
      'say how to divide a model among devices: what fits, how long a step takes, and why',
    )
    .requiredOption(
      '--model <place>',
      'a name such as gpt:175b, a folder with the config.json of a model, or a script',
    )
    .requiredOption(
      '--cluster <place>',
      'devices such as 128xh100, or a file such as that of `shardwise measure`',
    )
    .requiredOption('--batch <rows>', 'rows of the batch of a step, over all ranks', parseRanks)
    .option('--sequence <tokens>', 'tokens of a row (default: those of the model)', parseRanks)
    .option('--memory <size>', 'memory that each rank may use, such as 60GB', parseMemory)
    .addOption(
      new Option('--goal <goal>', 'what is to be least')
        .choices(['time', 'memory', 'money'])
        .default('time'),
    )
    .addOption(
      new Option('--dtype <precision>', '16 bits with copies in f32, or f32 alone')
        .choices(['mixed', 'f32'])
        .default('mixed'),
    )
    .option('--top <count>', 'number of layouts that are shown', parseRanks, 10)
    .option('--json', 'print the plan as JSON', false)
    .option('--page <file>', 'also write a page with bars and sliders, such as plan.html')
    .option('--trace <file>', 'also simulate the best layout, and write its timeline for Perfetto')
    .action(async (raw: unknown) => {
      const { planByOptions } = await import('./commands.ts');
      exitCode = await planByOptions(raw);
    });
  program
    .command('measure')
    .description('measure what this machine computes and sends, and write it as a cluster for plan')
    .argument('[file]', 'the file to write', 'cluster.json')
    .option(
      '-n, --nproc <count>',
      'number of ranks, between which links are measured',
      parseRanks,
      2,
    )
    .option('--trace <file>', 'measure nothing, and take the figures from the trace.json of a run')
    .action(async (file: string, raw: unknown) => {
      const { measureByOptions } = await import('./commands.ts');
      await measureByOptions(argv[1] ?? '', file, raw);
    });
  addServe(program).action(async (model: string, raw: unknown) => {
    const { serveByOptions } = await import('./commands.ts');
    exitCode = await serveByOptions(model, raw);
  });
  addCoordinate(program).action(async (raw: unknown) => {
    const { coordinateByOptions } = await import('./commands.ts');
    await coordinateByOptions(raw);
  });
  try {
    await program.parseAsync(withOwnNames(argv));
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) {
      const command = program.commands.map((each) => each.name()).find((name) => name === argv[2]);
      return commanderExit(error, command);
    }
    if (!ShardwiseError.isInstance(error)) throw error;
    process.stderr.write(`${error.message}\n`);
    return USAGE_EXIT_CODE;
  }
}

/**
 * Names the options of `run` that stand after the script. The script gets them, and may have options of these names;
 * but if they were meant for `run`, it would silently start another number of ranks.
 */
function noticeMisplacedOptions(script: string, args: readonly string[], run: Command): void {
  const names = new Set(args.map((arg) => arg.replace(/=.*/s, '')));
  const own = run.options.flatMap(({ long }) => (names.has(long ?? '') ? [long] : []));
  if (own.length === 0) return;
  const verb = own.length === 1 ? 'is passed' : 'are passed';
  process.stderr.write(
    `${own.join(', ')} ${verb} to ${script}, not to shardwise run. Options of shardwise run go before the script.\n`,
  );
}

/** Returns the exit code for an error of commander. Commander has printed help and version already, but not errors. */
function commanderExit(
  { code, message, exitCode }: CommanderError,
  command: string | undefined,
): number {
  if (exitCode === 0) return 0;
  if (code !== 'commander.help') {
    const found = message
      .replace(/^error: /, '')
      .replaceAll('\n', ' ')
      .replace(/\.$/, '');
    const help = `shardwise ${command === undefined ? '' : `${command} `}--help`;
    process.stderr.write(`Reading the command line: ${found}. See \`${help}\`\n`);
  }
  return USAGE_EXIT_CODE;
}
