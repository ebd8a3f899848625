import { checkOptions, option, type OptionRule, type OptionRules } from '@shardwise/core/base';
import { ConfigError, type ProcessGroup } from '@shardwise/core/spec';
import { findDirect } from './direct/find-direct.ts';
import { firstNotLetIn } from './member/member-errors.ts';
import type { ConnectionEvents } from './member/member-options.ts';
import { RunMember } from './member/run-member.ts';
import { webSocketLink } from './member/web-socket-link.ts';
import { MAX_NAME_LENGTH, MAX_TOKEN_LENGTH } from './protocol/limits.ts';
import type { Link } from './protocol/link.ts';
import { isName } from './protocol/messages.ts';

/** Options of `join`. */
export interface JoinRunOptions {
  /** The address of `shardwise coordinate`, such as `ws://127.0.0.1:8970` or `wss://example.org`. */
  readonly url: string;
  /** The token that the coordinator was started with. */
  readonly token: string;
  /** The name by which others see this member. Default: `member`. */
  readonly name?: string;
  /**
   * Whether updates go to members of other pages directly, by WebRTC, where the network allows it. They learn the address of this
   * machine. A rank in a worker needs `withDirectLinks` in its page. Default: true.
   */
  readonly direct?: boolean;
  /**
   * Servers that tell this machine its public address, such as `stun:stun.example.org`, so that machines behind different
   * routers reach each other. Default: none, so that only machines of one network do.
   */
  readonly stun?: readonly string[];
  /**
   * The ranks that are one member, such as `context.group`. All of them join, and the first one connects. Default: this rank.
   */
  readonly group?: ProcessGroup;
  /** How long to try again when the connection is lost, in milliseconds. Default: ten minutes. */
  readonly reconnectTimeoutMs?: number;
  /** Is told of updates that are not used, and of lost connections. Default: console.warn. */
  readonly onNotice?: (notice: string) => void;
}

const stunAddress: OptionRule<string> = {
  fits: (value): value is string => typeof value === 'string' && /^stuns?:[\w.:[\]-]+$/.test(value),
  expected: "an address such as 'stun:stun.example.org'",
};

const optionRules: OptionRules<JoinRunOptions> = {
  url: option.required(option.nonEmptyText),
  token: option.required(option.nonEmptyText),
  name: option.nonEmptyText,
  direct: option.flag,
  stun: option.listOf(stunAddress),
  group: option.object('a process group'),
  reconnectTimeoutMs: option.nonNegative,
  onNotice: option.callback(),
};

const DEFAULT_RECONNECT_MS = 600_000;

/**
 * Joins the members of a run that come and go, from Node or a page. Give what it returns to `diloco({ members })`. Throws
 * ConfigError for options out of range, RefusedError if the coordinator does not let this member in, and
 * CollectiveTimeoutError if nobody answers.
 */
export async function join(options: JoinRunOptions): Promise<RunMember> {
  checkOptions('join', options, optionRules);
  const { url, token, name = 'member' } = options;
  const { direct = true, stun = [], group } = options;
  const { reconnectTimeoutMs = DEFAULT_RECONNECT_MS } = options;
  const { onNotice = (notice: string): void => console.warn(`together: ${notice}`) } = options;
  requireAddress(url);
  requireTexts(name, token);
  const common = {
    url,
    token,
    name,
    reconnectTimeoutMs,
    onNotice,
    connect: (events: ConnectionEvents): Link => webSocketLink(url, events),
    digest,
    delay: (milliseconds: number): Promise<void> =>
      new Promise((resolve) => setTimeout(resolve, milliseconds)),
    now: () => performance.now(),
  };
  if (group !== undefined && group.rank > 0) {
    const number = await sharedNumber(group, 0);
    if (number === 0) throw firstNotLetIn(url);
    return new RunMember({ ...common, connectDirectly: null, number });
  }
  let number = 0;
  try {
    const connectDirectly = direct ? await findDirect(stun) : null;
    const member = new RunMember({ ...common, connectDirectly });
    await member.connect();
    ({ number } = member);
    return member;
  } finally {
    if (group !== undefined) await sharedNumber(group, number);
  }
}

/** Returns the number of the first rank's member. 0: it was not let in. */
async function sharedNumber(group: ProcessGroup, own: number): Promise<number> {
  const number = Uint32Array.of(own);
  await group.broadcast({ bytes: new Uint8Array(number.buffer), dtype: 'u8' }, 0);
  return number[0] ?? 0;
}

async function digest(bytes: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest('SHA-256', bytes.slice());
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function requireAddress(url: string): void {
  const isAddress = URL.canParse(url) && /^wss?:$/.test(new URL(url).protocol);
  if (!isAddress) {
    throw new ConfigError(
      {
        asked: `to join by ${url}`,
        found: 'no address of a WebSocket',
        todo: "Write it as `shardwise coordinate` prints it, such as 'ws://127.0.0.1:8970'",
      },
      { url },
    );
  }
  // Browsers have SHA-256 only in pages that nobody on the way can change.
  if (typeof crypto === 'object' && 'subtle' in crypto && crypto.subtle !== undefined) return;
  throw new ConfigError({
    asked: `to join by ${url}`,
    found:
      'a page that was not loaded by https or from this machine, in which browsers have no SHA-256',
    todo: 'Serve the page by https',
  });
}

function requireTexts(name: string, token: string): void {
  if (!isName(name)) {
    throw new ConfigError(
      {
        asked: 'to join by this name',
        found: `a name that is longer than ${MAX_NAME_LENGTH} characters, or has characters that cannot be seen`,
        todo: 'Give a short name, such as the name of the machine',
      },
      { name },
    );
  }
  if (token.length <= MAX_TOKEN_LENGTH) return;
  throw new ConfigError({
    asked: 'to join by this token',
    found: `${token.length} characters, more than ${MAX_TOKEN_LENGTH}`,
    todo: 'Take the token that the coordinator was started with',
  });
}
