import { type Command, Option } from 'commander';
import {
  addItem,
  parseDevice,
  parseGibibytes,
  parsePort,
  parseRanks,
  parseSeconds,
} from './parse-values.ts';

/** Adds the command `serve`, with its options, to the others. */
export function addServe(program: Command): Command {
  return program
    .command('serve')
    .description("answer OpenAI's interface with a model of a folder: texts, chats or embeddings")
    .argument(
      '<model>',
      'a folder of Hugging Face, a GGUF file, an address, or a name of the Hugging Face hub',
    )
    .option('--port <port>', 'port to listen at; 0 takes one that is free', parsePort, 8000)
    .option('--host <address>', 'address to listen at', '127.0.0.1')
    .addOption(
      new Option('--api-key <key>', 'key that requests must have; repeatable')
        .argParser(addItem)
        .default([], '$SHARDWISE_API_KEY'),
    )
    .option('--without-api-key', 'let everybody ask who reaches --host', false)
    .option(
      '--served-model-name <name>',
      'what requests call it (default: the name of the folder or file)',
    )
    .option('--device <name>', 'cpu, wasm (WebAssembly alone) or webgpu', parseDevice)
    .option('--threads <count>', 'threads of the CPU (default: one for each core)', parseRanks)
    .addOption(
      new Option('--dtype <dtype>', 'what parameters are stored in')
        .choices(['f32', 'bf16', 'f16'])
        .default('f32'),
    )
    .option('--quantized', 'keep weights in the blocks of few bits of the GGUF file', false)
    .option(
      '--cache-tokens <count>',
      'tokens for which the cache has places (default: 8 contexts, at most 16384)',
      parseRanks,
    )
    .addOption(
      new Option('--kv-cache-dtype <dtype>', 'what keys and values are kept in')
        .choices(['auto', 'float16', 'bfloat16', 'int8'])
        .default('auto'),
    )
    .addOption(
      new Option(
        '--lora-modules <name=path>',
        'adapter of PEFT, which requests name as their model; repeatable',
      )
        .argParser(addItem)
        .default([], 'none'),
    )
    .addOption(
      new Option('--preemption <how>', 'what becomes of keys and values when blocks run out')
        .choices(['recompute', 'swap'])
        .default('recompute'),
    )
    .option(
      '--swap-space <GiB>',
      'memory of the host for swapped blocks (default: 1)',
      parseGibibytes,
    )
    .option('--block-size <tokens>', 'tokens of a block of the cache', parseRanks, 16)
    .option('--max-sequences <count>', 'sequences that run at once', parseRanks, 32)
    .option('--max-chunk-tokens <count>', 'tokens of a prompt in a step', parseRanks, 256)
    .option(
      '--speculative-tokens <count>',
      'tokens that are proposed in a step, as they came before in the text (default: none)',
      parseRanks,
    )
    .option('-n, --nproc <count>', 'number of ranks, which divide the requests', parseRanks, 1)
    .option(
      '--tensor-parallel-size <count>',
      'ranks over which each replica of the model is divided',
      parseRanks,
      1,
    )
    .addOption(
      new Option('--on-rank-failure <way>', 'what becomes of requests whose rank is lost')
        .choices(['error', 'retry'])
        .default('error'),
    )
    .option(
      '--reload <directory>',
      'folder of a run, or of its checkpoints, whose latest weights are taken as they come',
    )
    .option(
      '--reload-interval <seconds>',
      'how often --reload looks for a checkpoint (default: 5)',
      parseSeconds,
    )
    .addOption(
      new Option(
        '--reload-requests <way>',
        'whether requests that are being answered go on with new weights (default: recompute)',
      ).choices(['recompute', 'finish']),
    )
    .option('--max-waiting <count>', 'requests that wait; others get status 429', parseRanks, 128)
    .option('--request-timeout <seconds>', 'longest time of a request (default: 600)', parseSeconds)
    .option(
      '--drain-timeout <seconds>',
      'how long SIGTERM waits for requests that have begun (default: 30)',
      parseSeconds,
    );
}
