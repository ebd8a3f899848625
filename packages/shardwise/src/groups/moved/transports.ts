// Old names of what is in the group `dist.transports` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const abortThreadsWorld: Moved<'dist.transports.abortThreadsWorld'> =
  /* @__PURE__ */ moved('dist.transports.abortThreadsWorld');
/** @deprecated */ export type ConnectedPorts = Moved<'dist.transports.ConnectedPorts'>;
/** @deprecated */ export const connectPorts: Moved<'dist.transports.connectPorts'> =
  /* @__PURE__ */ moved('dist.transports.connectPorts');
/** @deprecated */ export const createLoopbackTransports: Moved<'dist.transports.createLoopbackTransports'> =
  /* @__PURE__ */ moved('dist.transports.createLoopbackTransports');
/** @deprecated */ export const createPageWorld: Moved<'dist.transports.createPageWorld'> =
  /* @__PURE__ */ moved('dist.transports.createPageWorld');
/** @deprecated */ export const createThreadsWorld: Moved<'dist.transports.createThreadsWorld'> =
  /* @__PURE__ */ moved('dist.transports.createThreadsWorld');
/** @deprecated */ export const hostedTransport: Moved<'dist.transports.hostedTransport'> =
  /* @__PURE__ */ moved('dist.transports.hostedTransport');
/** @deprecated */ export type HostedTransportOptions =
  Moved<'dist.transports.HostedTransportOptions'>;
/** @deprecated */ export const joinPageWorld: Moved<'dist.transports.joinPageWorld'> =
  /* @__PURE__ */ moved('dist.transports.joinPageWorld');
/** @deprecated */ export type JoinThreadsOptions = Moved<'dist.transports.JoinThreadsOptions'>;
/** @deprecated */ export const joinThreadsWorld: Moved<'dist.transports.joinThreadsWorld'> =
  /* @__PURE__ */ moved('dist.transports.joinThreadsWorld');
/** @deprecated */ export const limitCalls: Moved<'dist.transports.limitCalls'> =
  /* @__PURE__ */ moved('dist.transports.limitCalls');
/** @deprecated */ export type LoopbackTransport = Moved<'dist.transports.LoopbackTransport'>;
/** @deprecated */ export type MemoryRegion = Moved<'dist.transports.MemoryRegion'>;
/** @deprecated */ export type PageRank = Moved<'dist.transports.PageRank'>;
/** @deprecated */ export type PageWorld = Moved<'dist.transports.PageWorld'>;
/** @deprecated */ export const peerClosedError: Moved<'dist.transports.peerClosedError'> =
  /* @__PURE__ */ moved('dist.transports.peerClosedError');
/** @deprecated */ export const portTransport: Moved<'dist.transports.portTransport'> =
  /* @__PURE__ */ moved('dist.transports.portTransport');
/** @deprecated */ export type PortTransportOptions = Moved<'dist.transports.PortTransportOptions'>;
/** @deprecated */ export type SharedMemoryGroup = Moved<'dist.transports.SharedMemoryGroup'>;
/** @deprecated */ export type ThreadsWorld = Moved<'dist.transports.ThreadsWorld'>;
/** @deprecated */ export type Traffic = Moved<'dist.transports.Traffic'>;
/** @deprecated */ export type WatchedTransport = Moved<'dist.transports.WatchedTransport'>;
/** @deprecated */ export type WorldOptions = Moved<'dist.transports.WorldOptions'>;
