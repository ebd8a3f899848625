/*
 * The same loop in C, for comparison with the group over MPI.
 *
 *   mpicc -O3 -o mpi-collectives mpi-collectives.c
 *   mpirun -n 2 ./mpi-collectives --operation allReduce --bytes 1048576 --iterations 100
 *
 * Rank 0 prints {"operation", "ranks", "bytes", "seconds": [one for each iteration]}. Values are
 * f32 and sums. `bytes` is the buffer of allReduce, broadcast, reduce and send, the input of
 * reduceScatter and allToAll, the output of allGather, as in the operations of the same name.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

static void fail(const char *message)
{
    fprintf(stderr, "mpi-collectives: %s\n", message);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void run(const char *operation, float *input, float *output, int count, int rank, int size)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const int part = count / size;
    if (strcmp(operation, "allReduce") == 0)
        MPI_Allreduce(MPI_IN_PLACE, input, count, MPI_FLOAT, MPI_SUM, world);
    else if (strcmp(operation, "reduceScatter") == 0)
        MPI_Reduce_scatter_block(input, output, part, MPI_FLOAT, MPI_SUM, world);
    else if (strcmp(operation, "allGather") == 0)
        MPI_Allgather(input, part, MPI_FLOAT, output, part, MPI_FLOAT, world);
    else if (strcmp(operation, "allToAll") == 0)
        MPI_Alltoall(input, part, MPI_FLOAT, output, part, MPI_FLOAT, world);
    else if (strcmp(operation, "broadcast") == 0)
        MPI_Bcast(input, count, MPI_FLOAT, 0, world);
    else if (strcmp(operation, "reduce") == 0)
        MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, world);
    else if (strcmp(operation, "barrier") == 0)
        MPI_Barrier(world);
    else if (strcmp(operation, "send") == 0) {
        /* There and back, as one way can't be timed on two clocks. */
        if (rank == 0) {
            MPI_Send(input, count, MPI_FLOAT, 1, 0, world);
            MPI_Recv(output, count, MPI_FLOAT, 1, 0, world, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(output, count, MPI_FLOAT, 0, 0, world, MPI_STATUS_IGNORE);
            MPI_Send(input, count, MPI_FLOAT, 0, 0, world);
        }
    } else
        fail("no such operation");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *operation = option(argc, argv, "--operation", "allReduce");
    const long bytes = atol(option(argc, argv, "--bytes", "1048576"));
    const int iterations = atoi(option(argc, argv, "--iterations", "20"));
    const int warmups = iterations < 10 ? 2 : iterations / 5;
    if (bytes < 0 || bytes / 4 > 2147483647L || iterations < 1) fail("a number is out of range");
    const int count = (int)(bytes / 4);
    float *input = calloc(count + 1, sizeof(float));
    float *output = calloc(count + 1, sizeof(float));
    double *seconds = calloc(iterations, sizeof(double));
    if (input == NULL || output == NULL || seconds == NULL) fail("no memory");
    /* Pages that are only read would all be the one page of zeros. */
    for (int i = 0; i < count; i++) input[i] = output[i] = 0.0f;
    for (int i = -warmups; i < iterations; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        run(operation, input, output, count, rank, size);
        if (i >= 0) seconds[i] = MPI_Wtime() - start;
    }
    if (rank == 0) {
        printf("{\"operation\":\"%s\",\"ranks\":%d,\"bytes\":%ld,\"seconds\":[", operation, size, bytes);
        for (int i = 0; i < iterations; i++) printf("%s%.9f", i > 0 ? "," : "", seconds[i]);
        printf("]}\n");
    }
    MPI_Finalize();
    return 0;
}
