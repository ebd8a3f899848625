export { MemoryStore } from './stores/memory-store.ts';
export {
  startStoreServer,
  type StoreServer,
  type StoreServerOptions,
} from './stores/store-server.ts';
export { connectStore, type ConnectStoreOptions } from './stores/tcp-store.ts';
export { tcpTransport, type TcpTransportOptions } from './transports/tcp/tcp-transport.ts';
export { closeShmWorld, createShmWorld, type ShmWorld } from './shm/world.ts';
export { joinShmWorld, type ShmRank } from './shm/join-shm-world.ts';
export { abortShmWorld } from './shm/abort-shm-world.ts';
export { shmAvailability, type ShmAvailability } from './shm/shm-availability.ts';
