import type { ClusterDescription, ClusterLink } from '../cluster/cluster.ts';

/** The link over which a group of ranks communicates. */
export interface GroupLink extends ClusterLink {
  readonly kind: 'none' | 'inside' | 'between';
}

/**
 * Returns the link of groups whose ranks are `stride` ranks apart. A group with several ranks on each host uses the
 * links of all of them between hosts, at most as fast as those inside.
 */
export function groupLink(
  { devicesPerHost, links, efficiency }: ClusterDescription,
  size: number,
  stride: number,
): GroupLink {
  const reached = (bytesPerSecond: number): number => bytesPerSecond * efficiency.links;
  const { inside, between, oversubscription } = links;
  if (size === 1) return { kind: 'none', latencySeconds: 0, bytesPerSecond: Infinity };
  const onHost = Math.max(1, Math.min(size, Math.floor(devicesPerHost / stride)));
  if (onHost === size) {
    return { kind: 'inside', ...inside, bytesPerSecond: reached(inside.bytesPerSecond) };
  }
  const outside = (between.bytesPerSecond * onHost) / oversubscription;
  return {
    kind: 'between',
    latencySeconds: between.latencySeconds,
    bytesPerSecond: reached(Math.min(inside.bytesPerSecond, outside)),
  };
}

/** The link between a device and the memory of its host. */
export function hostLink({ links, efficiency }: ClusterDescription): ClusterLink {
  const { latencySeconds, bytesPerSecond } = links.toHost ?? links.between;
  return { latencySeconds, bytesPerSecond: bytesPerSecond * efficiency.links };
}

/** The seconds of all-reduces, which together have `bytes`, in a ring of `size` ranks. */
export function allReduceSeconds(
  bytes: number,
  size: number,
  link: ClusterLink,
  messages = 1,
): number {
  return 2 * oneWaySeconds(bytes, size, link, messages);
}

/** The seconds of all-gathers or reduce-scatters, of which the wholes together have `bytes`, in a ring of `size` ranks. */
export function oneWaySeconds(
  bytes: number,
  size: number,
  link: ClusterLink,
  messages = 1,
): number {
  if (size === 1 || bytes === 0) return 0;
  return (size - 1) * (messages * link.latencySeconds + bytes / size / link.bytesPerSecond);
}

/** The seconds of one message. */
export function messageSeconds(
  bytes: number,
  { latencySeconds, bytesPerSecond }: ClusterLink,
): number {
  return bytes === 0 ? 0 : latencySeconds + bytes / bytesPerSecond;
}
