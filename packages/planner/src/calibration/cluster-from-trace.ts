import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';
import { type ClusterDescription, type ClusterLink, readCluster } from '../cluster/cluster.ts';
import { fitConstants } from './least-squares.ts';
import { linkFromMessages } from './link-from-messages.ts';

/** What a trace does not say of the machine on which it was recorded. */
export interface TracedHost {
  readonly name: string;
  /** The bytes of memory of the host. Its ranks share them. */
  readonly memoryBytes: number;
}

/** More events than this are no trace of a run. */
const MAX_EVENTS = 1_000_000;
/** Kernels that take the rest of the time are too short to be measured well. */
const SHARE_OF_TIME = 0.95;
/** The most messages that the constants of links are fitted to. */
const MAX_MESSAGES = 4000;

const amount = z.number().nonnegative().max(1e18);
const place = { pid: amount, tid: z.number().int().min(0).max(1e6) };
const microseconds = z.number().positive().max(1e12);

const kernelSchema = z.object({
  ...place,
  cat: z.literal('kernel'),
  dur: microseconds,
  args: z.object({ flops: amount, bytes: amount, calls: amount }),
});
const messageSchema = z.object({
  ...place,
  cat: z.literal('collective'),
  name: z.string().max(100),
  ts: amount,
  dur: microseconds,
  args: z.object({
    bytes: amount,
    axis: z.string().max(100),
    ranks: z.number().int().min(1).max(1e6),
  }),
});
const transferSchema = z.object({
  ...place,
  cat: z.literal('transfer'),
  dur: microseconds,
  args: z.object({ bytes: amount }),
});
const stepSchema = z.object({ ...place, cat: z.literal('step'), ts: amount, dur: microseconds });
const traceSchema = z.object({ traceEvents: z.array(z.unknown()).max(MAX_EVENTS) });
/** Of other events, a trace may have any. */
const eventSchema = z.discriminatedUnion('cat', [
  kernelSchema,
  messageSchema,
  transferSchema,
  stepSchema,
]);

type Kernel = z.infer<typeof kernelSchema>;
type Message = z.infer<typeof messageSchema>;
type Event = z.infer<typeof eventSchema>;

/**
 * Describes the host on which a trace was recorded, as `shardwise measure` does, from the contents of the `trace.json` of a
 * run whose steps were profiled: the rate of products, the bandwidth of other operations and the time of a call from the
 * kernels, and latency and bandwidth of the link between ranks from the collectives. Throws ConfigError for what is no
 * such trace.
 */
export function clusterFromTrace(trace: unknown, host: TracedHost): ClusterDescription {
  const parsed = traceSchema.safeParse(trace);
  if (!parsed.success) throw faultOf('no list of at most 1,000,000 trace events');
  const events = parsed.data.traceEvents.flatMap((event): readonly Event[] => {
    const found = eventSchema.safeParse(event);
    return found.success ? [found.data] : [];
  });
  const ranks = new Set(events.map(({ tid }) => tid)).size;
  const device = deviceConstants(events.filter((event) => event.cat === 'kernel'));
  const messages = meetingsOf(events);
  const link: ClusterLink =
    messages.length === 0
      ? { latencySeconds: 1e-6, bytesPerSecond: device.memoryBytesPerSecond }
      : linkConstants(messages);
  const toHost = transferLink(events);
  return readCluster({
    name: host.name,
    hosts: 1,
    devicesPerHost: Math.max(1, ranks),
    device: {
      name: 'the traced device',
      memoryBytes: host.memoryBytes / Math.max(1, ranks),
      flops: { f32: device.flops, half: device.flops },
      memoryBytesPerSecond: device.memoryBytesPerSecond,
      launchSeconds: device.launchSeconds,
    },
    links: { inside: link, between: link, ...(toHost && { toHost }) },
    // What was measured is what is reached, and not a peak.
    efficiency: { products: 1, memory: 1, links: 1, allocator: 1, runtimeBytes: 0 },
    source: 'a trace of a run',
  });
}

interface DeviceConstants {
  readonly flops: number;
  readonly memoryBytesPerSecond: number;
  readonly launchSeconds: number;
}

function deviceConstants(kernels: readonly Kernel[]): DeviceConstants {
  const isProduct = ({ args }: Kernel): boolean => args.flops > 0;
  const products = longest(kernels.filter(isProduct));
  const others = longest(kernels.filter((kernel) => !isProduct(kernel) && kernel.args.bytes > 0));
  if (products.length === 0 || others.length === 0) {
    throw faultOf('no kernels with their operations and bytes');
  }
  const counted = [...products, ...others];
  const [perFlop = 0, perByte = 0, perCall = 0] = fitConstants(
    counted.map((kernel) => [
      kernel.args.flops,
      isProduct(kernel) ? 0 : kernel.args.bytes,
      kernel.args.calls,
    ]),
    counted.map(({ dur }) => dur / 1e6),
  );
  return {
    flops: perFlop > 0 ? 1 / perFlop : rateOf(products, ({ args }) => args.flops),
    memoryBytesPerSecond: perByte > 0 ? 1 / perByte : rateOf(others, ({ args }) => args.bytes),
    launchSeconds: perCall,
  };
}

/** The kernels that take most of the time. */
function longest(kernels: readonly Kernel[]): readonly Kernel[] {
  const total = kernels.reduce((sum, { dur }) => sum + dur, 0);
  let sum = 0;
  return kernels
    .toSorted((a, b) => b.dur - a.dur)
    .filter(({ dur }) => {
      const isCounted = sum < SHARE_OF_TIME * total;
      sum += dur;
      return isCounted;
    });
}

function rateOf(kernels: readonly Kernel[], amountOf: (kernel: Kernel) => number): number {
  const sum = (pick: (kernel: Kernel) => number): number =>
    kernels.reduce((total, kernel) => total + pick(kernel), 0);
  return sum(amountOf) / (sum(({ dur }) => dur) / 1e6);
}

/**
 * A collective as the rank saw it that came last, because the others have waited for that one. Which calls belong together
 * follows from their order on each rank. Collectives of the first step are left out, because ranks compile then.
 */
function meetingsOf(events: readonly Event[]): readonly Message[] {
  const steps = events.filter((event) => event.cat === 'step');
  const warm = Math.min(
    Infinity,
    ...Map.groupBy(steps, ({ tid }) => tid)
      .values()
      .flatMap((own) => {
        const [, second] = own.toSorted((a, b) => a.ts - b.ts);
        return second === undefined ? [] : [second.ts];
      }),
  );
  const from = Number.isFinite(warm) ? warm : 0;
  const least = new Map<string, Message>();
  const counts = new Map<string, number>();
  const messages = events
    .filter((event) => event.cat === 'collective')
    .filter(({ args, ts }) => args.ranks > 1 && args.bytes > 0 && ts >= from)
    .toSorted((a, b) => a.ts - b.ts);
  for (const message of messages) {
    const { name, tid, args } = message;
    const kind = `${name} ${args.axis} ${args.ranks} ${args.bytes}`;
    const count = counts.get(`${kind} ${tid}`) ?? 0;
    counts.set(`${kind} ${tid}`, count + 1);
    const known = least.get(`${kind} ${count}`);
    if (known === undefined || message.dur < known.dur) least.set(`${kind} ${count}`, message);
  }
  return [...least.values()].slice(0, MAX_MESSAGES);
}

function linkConstants(messages: readonly Message[]): ClusterLink {
  return linkFromMessages(
    messages.map(({ name, dur, args: { bytes, ranks } }) => ({
      name,
      bytes,
      ranks,
      seconds: dur / 1e6,
    })),
  );
}

function transferLink(events: readonly Event[]): ClusterLink | undefined {
  const transfers = events.filter((event) => event.cat === 'transfer').slice(0, MAX_MESSAGES);
  if (transfers.length === 0) return undefined;
  return linkFromMessages(
    transfers.map(({ args, dur }) => ({
      name: 'sendRecv',
      bytes: args.bytes,
      ranks: 2,
      seconds: dur / 1e6,
    })),
  );
}

function faultOf(found: string): ConfigError {
  return new ConfigError({
    asked: 'the constants of a cluster from a trace',
    found,
    todo: 'Give the trace.json of a run that profiles some steps: init({ profile: { steps: [3, 5] } })',
  });
}
