import type { Command } from 'commander';
import { parseFraction, parsePort, parseRanks, parseSeconds, parseSize } from './parse-values.ts';

/** Adds the command `coordinate`, with its options, to the others. */
export function addCoordinate(program: Command): Command {
  return program
    .command('coordinate')
    .description(
      'introduce members that train together, on any machines or in pages, and pass on what they send',
    )
    .option('--port <port>', 'port to listen at; 0 takes one that is free', parsePort, 8970)
    .option('--host <address>', 'address to listen at', '127.0.0.1')
    .option(
      '--token-file <file>',
      'file with the token of members, or with one for each in a line of its own (default: a new one, which is printed)',
    )
    .option('--max-members <count>', 'members at once', parseRanks, 64)
    .option(
      '--round-timeout <seconds>',
      'how long a round waits for others after the first update (default: 60)',
      parseSeconds,
    )
    .option(
      '--audit <share>',
      'share of the updates that other members make again, such as 0.02 (default: 0)',
      parseFraction,
    )
    .option(
      '--max-rate <size>',
      'what a member may send in a second, such as 32MB (default: 32MB)',
      parseSize,
    );
}
