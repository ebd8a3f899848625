import { cgroupText } from './cgroup.ts';
import type { Finding } from './finding.ts';
import type { Readings } from './readings.ts';

// Cores, their memories, and the clock.

export function coresProbe({ cores, read, list }: Readings): Finding {
  const name = 'cores';
  const model = /^model name\s*:\s*(.+)$/m.exec(read('/proc/cpuinfo') ?? '')?.[1]?.trim();
  const nodes = list('/sys/devices/system/node')
    .filter((node) => /^node\d+$/.test(node))
    .map(
      (node) =>
        `${node.slice(4)}: ${(read(`/sys/devices/system/node/${node}/cpulist`) ?? '').trim()}`,
    );
  const allowed = /^Cpus_allowed_list:\s*(\S+)$/m.exec(read('/proc/self/status') ?? '')?.[1];
  const numa = nodes.length > 1 ? `; NUMA nodes ${nodes.join(', ')}` : '';
  const found = `${cores}${model === undefined ? '' : ` of ${model}`}${numa}`;
  const figures = { cores, numaNodes: nodes, ...(allowed !== undefined && { allowed }) };
  return { name, level: 'green', found, figures };
}

export function cpuLimitProbe(readings: Readings): Finding {
  const name = 'CPU limit';
  const limits = cgroupText(readings, 'cpu.max', 'cpu/cpu.cfs_quota_us')
    .map(coresOfLimit)
    .filter((limit) => limit !== undefined);
  const limit = Math.min(...limits);
  if (limit >= readings.cores) {
    return { name, level: 'green', found: 'the cgroup allows all cores' };
  }
  const ranks = Math.max(1, Math.floor(limit));
  return {
    name,
    level: 'yellow',
    found: `the cgroup allows the time of ${limit} of ${readings.cores} cores, and stops all ranks when it is used up`,
    todo: `Start at most ${ranks} ${ranks === 1 ? 'rank' : 'ranks'} here, or raise the CPU limit of the container or job`,
    figures: { limit, cores: readings.cores },
  };
}

/** Version 1 has the period in another file, and by default it is this one. */
const PERIOD_US = 100_000;

/** Returns how many cores a text like `150000 100000` or `150000` allows. Returns undefined for no limit. */
function coresOfLimit(text: string): number | undefined {
  const [, quota, period = String(PERIOD_US)] = /^(\d{1,12})(?: (\d{1,12}))?\s*$/.exec(text) ?? [];
  if (quota === undefined || Number(period) === 0) return undefined;
  return Number(quota) / Number(period);
}

/** Sources that programs can read without the kernel, or as fast. */
const FAST_CLOCKS = new Set([
  'tsc',
  'kvm-clock',
  'hyperv_clocksource_tsc_page',
  'arch_sys_counter',
]);
/** No clock that is right shows an earlier time. */
const EARLIEST_MS = Date.UTC(2026, 0, 1);

export function clockProbe({ read, list, now }: Readings): Finding {
  const name = 'clock';
  const time = `${new Date(now()).toISOString().slice(0, 19)}Z`;
  const folder = '/sys/devices/system/clocksource/clocksource0';
  const source = (read(`${folder}/current_clocksource`) ?? '').trim();
  const isSynchronized = list('/run/systemd/timesync').includes('synchronized');
  const found = [
    time,
    ...(source === '' ? [] : [`read from ${source}`]),
    ...(isSynchronized ? ['synchronized'] : []),
  ].join(', ');
  const figures = { time, source, isSynchronized };
  if (now() < EARLIEST_MS) {
    const todo = 'Set the clock, for example with chronyd. Certificates and logs need it';
    return { name, level: 'red', found, todo, figures };
  }
  if (source === '' || FAST_CLOCKS.has(source)) return { name, level: 'green', found, figures };
  const others = (read(`${folder}/available_clocksource`) ?? '').trim().split(' ');
  const better = others.find((other) => FAST_CLOCKS.has(other));
  return {
    name,
    level: 'yellow',
    found: `${found}, which takes a system call each time`,
    todo:
      better === undefined
        ? 'Choose a host with another clock. Measured times cost more here'
        : `As root: echo ${better} > ${folder}/current_clocksource`,
    figures,
  };
}
