import { ConfigError } from '@shardwise/core/extend';
import { z } from 'zod';

/** A link, as each device has it in each direction. */
export interface ClusterLink {
  /** The time of a message of no bytes, in seconds. */
  readonly latencySeconds: number;
  readonly bytesPerSecond: number;
}

export interface DeviceDescription {
  readonly name: string;
  readonly memoryBytes: number;
  /** The operations per second of products at the peak. */
  readonly flops: { readonly f32: number; readonly half: number; readonly f8?: number | undefined };
  /** The bytes per second that the device reads and writes. */
  readonly memoryBytesPerSecond: number;
  /** The same for the updates of optimizers, which stream through memory. Default: `memoryBytesPerSecond`. */
  readonly updateBytesPerSecond?: number | undefined;
  /** The time that each call of a kernel or a program takes besides its work. */
  readonly launchSeconds: number;
  /** The electric power under load. */
  readonly watts?: number | undefined;
  /** The price of an hour. */
  readonly pricePerHour?: number | undefined;
}

/**
 * What devices and links reach of their peaks, in training. They are constants of the kind of device, and come from
 * measurements, never from the run that is to be predicted.
 */
export interface Efficiency {
  /** The share of the peak that large products reach. */
  readonly products: number;
  /** The share of the memory's bandwidth that other operations reach. */
  readonly memory: number;
  /** The share of the links' bandwidth that collectives reach. */
  readonly links: number;
  /** The memory that the allocator takes, as a multiple of what tensors need. */
  readonly allocator: number;
  /** The bytes that the runtime takes of each device. */
  readonly runtimeBytes: number;
}

/** Devices and the links between them. */
export interface ClusterDescription {
  readonly name: string;
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly device: DeviceDescription;
  readonly links: {
    /** Between devices of one host. */
    readonly inside: ClusterLink;
    /** Between hosts, for each device. */
    readonly between: ClusterLink;
    /** How many times the bandwidth of all hosts exceeds that of the network between groups of hosts. */
    readonly oversubscription: number;
    /**
     * The share of the time of messages in which a device can compute. 0: what computes also copies the messages, as the
     * processors of a host do.
     */
    readonly overlap: number;
    /** Between a device and the memory of its host. */
    readonly toHost?: ClusterLink | undefined;
  };
  readonly hostMemoryBytes?: number | undefined;
  readonly efficiency: Efficiency;
  /** Where the figures come from. */
  readonly source: string;
}

// A file of a cluster is data from outside, so limits are on every number and text.
const rate = z.number().positive().max(1e18);
const seconds = z.number().min(0).max(60);
const text = z.string().min(1).max(200);

const linkSchema: z.ZodType<ClusterLink> = z.strictObject({
  latencySeconds: seconds,
  bytesPerSecond: rate,
});

const deviceSchema: z.ZodType<DeviceDescription> = z.strictObject({
  name: text,
  memoryBytes: z.number().positive().max(1e15),
  flops: z.strictObject({ f32: rate, half: rate, f8: rate.optional() }),
  memoryBytesPerSecond: rate,
  updateBytesPerSecond: rate.optional(),
  launchSeconds: seconds.default(0),
  watts: z.number().positive().max(1e6).optional(),
  pricePerHour: z.number().min(0).max(1e6).optional(),
});

const efficiencySchema: z.ZodType<Efficiency> = z.strictObject({
  products: z.number().positive().max(1),
  memory: z.number().positive().max(1),
  links: z.number().positive().max(1),
  allocator: z.number().min(1).max(3),
  runtimeBytes: z.number().min(0).max(1e12),
});

/**
 * What GPUs reach in trainings: of a few round values, those with the smallest error on the steps in `test/measured`.
 * They are the same for all devices but for the products.
 */
export const usualEfficiency: Efficiency = {
  products: 0.6,
  memory: 0.6,
  links: 0.8,
  allocator: 1.08,
  runtimeBytes: 1.5e9,
};

const clusterSchema: z.ZodType<ClusterDescription> = z.strictObject({
  name: text,
  hosts: z.number().int().min(1).max(1_000_000),
  devicesPerHost: z.number().int().min(1).max(1024),
  device: deviceSchema,
  links: z.strictObject({
    inside: linkSchema,
    between: linkSchema,
    oversubscription: z.number().min(1).max(1000).default(1),
    overlap: z.number().min(0).max(1).default(1),
    toHost: linkSchema.optional(),
  }),
  hostMemoryBytes: z.number().positive().max(1e16).optional(),
  efficiency: efficiencySchema.default(usualEfficiency),
  source: z.string().max(2000).default(''),
});

/** Checks the contents of a file that describes a cluster. Throws ConfigError that names the field. */
export function readCluster(json: unknown): ClusterDescription {
  const parsed = clusterSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  const { field, found } = firstFault(parsed.error);
  throw new ConfigError(
    {
      asked: 'the description of a cluster',
      found,
      todo: 'Correct it, or name a cluster such as 128xh100; `shardwise measure` describes this machine',
    },
    { path: field },
  );
}

/** The first field of a file that does not fit, and what is wrong with it in words. */
export function firstFault({ issues: [issue] }: z.ZodError): {
  readonly field: string;
  readonly found: string;
} {
  const field = (issue?.path ?? []).map(String).join('.');
  const place = field === '' ? 'the whole' : `'${field}'`;
  return { field, found: `${place}: ${issue?.message ?? 'it does not fit'}` };
}

/** The number of all devices. */
export function deviceCount({ hosts, devicesPerHost }: ClusterDescription): number {
  return hosts * devicesPerHost;
}
