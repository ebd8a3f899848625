import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { ConfigError } from '@shardwise/core/spec';
import { cannotListen } from '../serve/cannot-listen.ts';
import { auditText } from '../together/protocol/audit-text.ts';
import { startCoordinator } from '../together/coordinator/start-coordinator.ts';
import { MAX_MEMBERS, MAX_TOKEN_LENGTH } from '../together/protocol/limits.ts';
import { followInterrupts } from './interrupts.ts';

/** The options of `shardwise coordinate`. */
export interface CoordinateOptions {
  readonly port: number;
  readonly host: string;
  readonly tokenFile: string | undefined;
  readonly maxMembers: number;
  readonly roundTimeoutMs: number;
  /** Bytes that a member may send in a second. */
  readonly maxRate: number;
  /** The share of the updates that other members make again, from 0 to 1. */
  readonly audit: number;
}

const MIN_TOKEN_LENGTH = 16;
/** A member to which more is on its way does not keep up with the others. */
const MAX_BUFFERED_BYTES = 256 * 1024 * 1024;

/** Runs `shardwise coordinate` until SIGINT or SIGTERM. Throws ConfigError for a token, or an address, that it cannot use. */
export async function coordinateCommand(options: CoordinateOptions): Promise<void> {
  const { tokenFile, host, port, maxMembers, roundTimeoutMs, maxRate, audit } = options;
  if (maxMembers > MAX_MEMBERS) {
    throw new ConfigError(
      {
        asked: `--max-members ${maxMembers}`,
        found: `a coordinator for at most ${MAX_MEMBERS}`,
        todo: `Use at most ${MAX_MEMBERS}`,
      },
      { maxMembers },
    );
  }
  const tokens =
    tokenFile === undefined ? [randomBytes(32).toString('hex')] : await read(tokenFile);
  const coordinator = await startCoordinator({
    host,
    port,
    tokens,
    audit,
    maxMembers,
    roundTimeoutMs,
    bytesPerSecond: maxRate,
    maxBufferedBytes: MAX_BUFFERED_BYTES,
    onNotice: (notice) => process.stdout.write(`${notice}\n`),
  }).catch((error: unknown) => {
    throw cannotListen(host, port, error);
  });
  const asked = Promise.withResolvers<void>();
  const interrupts = followInterrupts(asked.resolve);
  const shown =
    tokenFile === undefined
      ? tokens.join()
      : `${tokens.length === 1 ? 'that' : 'those'} of ${tokenFile}`;
  process.stdout.write(
    `Members join by ${coordinator.url}\nToken: ${shown}\nWho is there: ${coordinator.pageUrl}\n`,
  );
  await asked.promise;
  if (audit > 0) process.stdout.write(`${auditText(coordinator.status.audits)}\n`);
  await coordinator.close();
  interrupts.dispose();
}

async function read(path: string): Promise<readonly string[]> {
  const asked = `the token of ${path}`;
  const todo = 'Make one with `openssl rand -hex 32 > run.token`';
  const text = await readFile(path, 'utf8').catch((cause: unknown) => {
    const found = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError({ asked, found, todo }, { path }, { cause });
  });
  const tokens = text.trim().split(/\s*\n\s*/);
  const wrong = tokens.find(({ length }) => length < MIN_TOKEN_LENGTH || length > MAX_TOKEN_LENGTH);
  if (wrong !== undefined) {
    const found = `${wrong.length} characters, not ${MIN_TOKEN_LENGTH} to ${MAX_TOKEN_LENGTH}`;
    throw new ConfigError({ asked, found, todo }, { path });
  }
  if (tokens.length <= MAX_MEMBERS && new Set(tokens).size === tokens.length) return tokens;
  const found = `${tokens.length} tokens, of which ${new Set(tokens).size} differ`;
  throw new ConfigError(
    { asked, found, todo: `Give each member another one, and at most ${MAX_MEMBERS}` },
    { path },
  );
}
