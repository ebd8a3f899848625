export { MemoryStore } from './stores/memory-store.ts';
export { PrefixStore } from './stores/prefix-store.ts';
export { startStoreServer, type Server, type ServerOptions } from './stores/store-server.ts';
export { connectStore, type ConnectStoreOptions } from './stores/tcp-store.ts';
export { tcpTransport, type TcpTransportOptions } from './transports/tcp/tcp-transport.ts';
export {
  closeShmWorld,
  createShmWorld,
  shmAvailability,
  type ShmAvailability,
  type ShmWorld,
} from './shm/shm-world.ts';
export { abortShmWorld, joinShmWorld, type ShmRank } from './shm/join-shm-world.ts';
export { coreYielder, endWithParent } from './shm/linux-calls.ts';
export { mpiGroup } from './mpi/mpi-group.ts';
export { mpiAvailability, type MpiAvailability } from './mpi/mpi-library.ts';
export { parseAlgorithmTable } from './group/selection/parse-algorithm-table.ts';
export {
  measureAlgorithms,
  type AlgorithmMeasurement,
  type MeasureOptions,
} from './group/measurement/measure-algorithms.ts';
export { algorithmTableOf } from './group/measurement/algorithm-table-of.ts';
export { startRequestServer, type RequestServerOptions } from './requests/request-server.ts';
export { connectRequests, type ConnectRequestsOptions } from './requests/connect-requests.ts';
